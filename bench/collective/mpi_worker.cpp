// One rank of the benchmark over MPI; started by mpirun. bf16 is a type of the user's with an
// operation of the user's, as programs that need it under MPI do.
#include <mpi.h>

#include "bench/collective/cases.h"

namespace {

using namespace cohort;

__attribute__((target_clones("avx512f", "avx2", "default"))) void add_bf16(void* in, void* inout,
                                                                           int* length,
                                                                           MPI_Datatype*) {
  const auto* x = static_cast<const std::uint16_t*>(in);
  auto* y = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *length; ++i) {
    const std::uint32_t left = static_cast<std::uint32_t>(x[i]) << 16;
    const std::uint32_t right = static_cast<std::uint32_t>(y[i]) << 16;
    const float sum = __builtin_bit_cast(float, left) + __builtin_bit_cast(float, right);
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, sum);
    y[i] = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op sum_bf16;
  MPI_Op_create(add_bf16, 1, &sum_bf16);
  const bool full = argc > 1 && std::string(argv[1]) == "full";
  for (const bench::Case& what : bench::make_cases(full)) {
    if (what.type == "f32" && what.memory == "group") continue;  // MPI has no such memory
    std::vector<char> data(what.bytes);
    bench::measure(what, data.data(), rank, size, [&] {
      if (what.type == "f32")
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(what.bytes / 4), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
      else
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(what.bytes / 2), MPI_UINT16_T,
                      sum_bf16, MPI_COMM_WORLD);
    });
  }
  MPI_Op_free(&sum_bf16);
  MPI_Finalize();
  return 0;
}
