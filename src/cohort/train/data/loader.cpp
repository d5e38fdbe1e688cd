#include "cohort/train/data/loader.h"

#include <exception>
#include <string>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

MadeBatch make_batch(const BatchMaker& maker, std::int64_t number,
                     const std::vector<std::int64_t>& indices, const DrawKey& key) {
  const auto where = [&] { return fmt::format("batch {} of epoch {}", number, key.epoch); };
  try {
    return maker.make(indices, key);
  } catch (const InvalidInput& error) {
    ErrorContext context = error.context();
    context.during = where();
    throw InvalidInput(error.message(), std::move(context));
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(fmt::format("the data set failed: {}", error.what_without_backtrace()),
                {.during = where()});
  } catch (const std::exception& error) {
    throw Error(fmt::format("the data set failed: {}", error.what()), {.during = where()});
  }
}

}  // namespace

Loader::Loader(SourcePtr source, std::int64_t batches, IndexLists indices, DrawKey key,
               PrefetchOptions options)
    : Loader(std::make_shared<BatchMaker>(std::move(source)), batches, std::move(indices), key,
             options) {}

Loader::Loader(BatchMakerPtr maker, std::int64_t batches, IndexLists indices, DrawKey key,
               PrefetchOptions options)
    : prefetch_(
          batches,
          [maker = std::move(maker), indices = std::move(indices), key](std::int64_t number) {
            return make_batch(*maker, number, indices(number), key);
          },
          options) {}

Loader::Loader(SourcePtr source, std::vector<std::vector<std::int64_t>> indices, DrawKey key,
               PrefetchOptions options)
    : prefetch_(
          static_cast<std::int64_t>(indices.size()),
          [maker = BatchMakerPtr(std::make_shared<BatchMaker>(std::move(source))), indices,
           key](std::int64_t number) {
            return make_batch(*maker, number, indices[static_cast<std::size_t>(number)], key);
          },
          options) {}

Loader::Loader(SourcePtr source, std::shared_ptr<const EpochPlan> epoch, ShardRange shards,
               std::int64_t first_step, PrefetchOptions options)
    : prefetch_(
          std::max<std::int64_t>(epoch->plan().steps_per_epoch() - first_step, 0),
          [maker = BatchMakerPtr(std::make_shared<BatchMaker>(std::move(source))), epoch, shards,
           first_step](std::int64_t number) {
            const auto mine = epoch->indices(first_step + number, shards);
            return make_batch(*maker, first_step + number, {mine.begin(), mine.end()},
                              {.seed = epoch->plan().options().seed, .epoch = epoch->epoch()});
          },
          options) {}

std::optional<AnyBatch> Loader::next(Deadline deadline) {
  const auto before = std::chrono::steady_clock::now();
  std::optional<MadeBatch> made = prefetch_.next(deadline);
  waited_ += std::chrono::steady_clock::now() - before;
  return made ? std::optional(made->take()) : std::nullopt;
}

}  // namespace cohort::train
