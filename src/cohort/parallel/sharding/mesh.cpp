#include "cohort/parallel/sharding/mesh.h"

#include <set>

#include "cohort/base/error.h"

namespace cohort::parallel {

Mesh::Mesh(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {
  std::set<std::string> names;
  for (const Dimension& dimension : dimensions_) {
    if (dimension.size < 1)
      throw InvalidInput(
          fmt::format("the mesh's dimension {} has the size {}", dimension.name, dimension.size),
          {.advice = "Give every dimension at least one worker."});
    if (!names.insert(dimension.name).second)
      throw InvalidInput(fmt::format("the mesh has two dimensions {}", dimension.name),
                         {.advice = "Name each once."});
  }
}

Mesh Mesh::of_workers(int workers, Shard shard) {
  const bool divides = shard != Shard::none;
  return Mesh({{"data", divides ? 1 : workers}, {"shard", divides ? workers : 1}});
}

int Mesh::workers() const {
  int workers = 1;
  for (const Dimension& dimension : dimensions_) workers *= dimension.size;
  return workers;
}

int Mesh::size(std::string_view name) const {
  for (const Dimension& dimension : dimensions_)
    if (dimension.name == name) return dimension.size;
  return 1;
}

std::vector<int> Mesh::line(std::string_view name, int rank) const {
  COHORT_CHECK(rank >= 0 && rank < workers(), "rank {} of a mesh of {}", rank, workers());
  int stride = workers();
  for (const Dimension& dimension : dimensions_) {
    stride /= dimension.size;
    if (dimension.name != name) continue;
    const int first = rank - rank / stride % dimension.size * stride;
    std::vector<int> ranks;
    for (int i = 0; i < dimension.size; ++i) ranks.push_back(first + i * stride);
    return ranks;
  }
  return {rank};
}

}  // namespace cohort::parallel
