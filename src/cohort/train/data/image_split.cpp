#include "cohort/train/data/image_split.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

constexpr std::int64_t kPixelValues = 256;
constexpr std::int64_t kOutside = std::int64_t{1} << 40;  // more than any sum of places
constexpr std::int64_t kImagesAtOnce = 4096;  // that are copied, to bound what that takes

// Of common(): the tables, then the samples where they are kept.
enum CommonPart { kTable, kOffsets, kPadding, kAllPixels, kAllTargets };
// Of what the host gives: the maps, then the samples where they are not kept.
enum GivenPart { kMaps, kBatchPixels, kBatchTargets };

// Images N x C x H x W as `places` x C, from place `first` on.
void lay_out(const torch::Tensor& images, std::int64_t first, torch::Tensor& places) {
  const std::int64_t count = images.size(0) * images.size(2) * images.size(3);
  places.narrow(0, first, count)
      .view({images.size(0), images.size(2), images.size(3), images.size(1)})
      .copy_(images.permute({0, 2, 3, 1}));
}

// With one place more, which is black.
torch::Tensor places_for(std::int64_t images, const ImageShape& shape, torch::Device device) {
  const std::int64_t count = images * shape.height * shape.width;
  auto places =
      torch::empty({count + 1, shape.channels}, torch::TensorOptions(torch::kUInt8).device(device));
  places.narrow(0, count, 1).zero_();
  return places;
}

void write_axis(const AxisMap& axis, std::int64_t origin, std::int64_t unit, std::int64_t* to) {
  for (std::int64_t x = 0; x < axis.size; ++x) {
    const bool inside = x >= axis.first && x < axis.last;
    to[x] = inside ? origin + (axis.origin + axis.step * x) * unit : kOutside;
  }
}

}  // namespace

ImageSplit::ImageSplit(const Dataset& dataset, RawImages images, PixelScale scale, AxesOf axes,
                       const SplitOptions& options)
    : dataset_(dataset),
      images_(std::move(images)),
      scale_(std::move(scale)),
      axes_(std::move(axes)),
      options_(options),
      padding_is_black_(true) {
  const ImageAxes any = axes_({}, 0);
  rows_ = any.rows.size;
  columns_ = any.columns.size;
  for (std::int64_t channel = 0; channel < scale_.channels(); ++channel)
    padding_is_black_ =
        padding_is_black_ && scale_.padding(channel) == scale_.table(channel).front();
}

std::vector<torch::Tensor> ImageSplit::common(torch::Device device) const {
  const std::int64_t channels = images_.shape.channels;
  auto table = torch::empty({channels * kPixelValues}, torch::kFloat32);
  auto offsets = torch::empty({channels}, torch::kInt32);
  auto padding = torch::empty({channels}, torch::kFloat32);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const auto values = scale_.table(channel);
    std::copy(values.begin(), values.end(), table.data_ptr<float>() + channel * kPixelValues);
    offsets.data_ptr<std::int32_t>()[channel] = static_cast<std::int32_t>(channel * kPixelValues);
    padding.data_ptr<float>()[channel] = scale_.padding(channel);
  }
  std::vector<torch::Tensor> all{table.to(device), offsets.to(device), padding.to(device)};
  if (!has_all()) return all;
  const std::int64_t images = images_.pixels.size(0);
  torch::Tensor places = places_for(images, images_.shape, device);
  for (std::int64_t first = 0; first < images; first += kImagesAtOnce) {
    const std::int64_t count = std::min(kImagesAtOnce, images - first);
    lay_out(images_.pixels.narrow(0, first, count).to(device),
            first * images_.shape.height * images_.shape.width, places);
  }
  all.push_back(places);
  all.push_back(images_.target.to(device));
  return all;
}

std::vector<torch::Tensor> ImageSplit::on_host(std::span<const std::int64_t> indices,
                                               const DrawKey& key) const {
  std::vector<torch::Tensor> given;
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t width = 1 + rows_ + columns_;
  given.push_back(torch::empty({count, width},
                               torch::TensorOptions(torch::kInt64).pinned_memory(options_.pinned)));
  if (has_all()) {
    check_indices(indices, images_.pixels.size(0));
  } else {
    Batch batch = dataset_.get_raw(indices, key);
    const ImageShape& shape = images_.shape;
    if (batch.data.scalar_type() != torch::kUInt8 ||
        batch.data.sizes() !=
            torch::IntArrayRef({count, shape.channels, shape.height, shape.width}) ||
        batch.target.dim() < 1 || batch.target.size(0) != count)
      throw InvalidInput(
          fmt::format("get_raw() gave a tensor of {} for {} images of {} x {} x {}",
                      torch::toString(batch.data.scalar_type()), count, shape.channels,
                      shape.height, shape.width),
          {.advice =
               "Give what raw_images() promises, with one row an index, or do not override it."});
    given.push_back(std::move(batch.data));
    given.push_back(std::move(batch.target));
  }
  auto* map = given.front().data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i, map += width) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    const ImageAxes axes = axes_(key, index);
    map[0] = has_all() ? index : i;
    write_axis(axes.rows, map[0] * images_.shape.height * images_.shape.width, images_.shape.width,
               map + 1);
    write_axis(axes.columns, 0, 1, map + 1 + rows_);
  }
  return given;
}

AnyBatch ImageSplit::on_device(std::span<const torch::Tensor> common,
                               std::span<const torch::Tensor> given) const {
  const torch::Tensor& maps = given[kMaps];
  const std::int64_t count = maps.size(0);
  torch::Tensor pixels, target;
  if (has_all()) {
    pixels = common[kAllPixels];
    target = common[kAllTargets].index_select(0, maps.select(1, 0));
  } else {
    pixels = places_for(count, images_.shape, maps.device());
    lay_out(given[kBatchPixels], 0, pixels);
    target = given[kBatchTargets];
  }
  const std::int64_t outside = pixels.size(0) - 1;
  torch::Tensor places =
      maps.narrow(1, 1, rows_).unsqueeze(2) + maps.narrow(1, 1 + rows_, columns_).unsqueeze(1);
  places.clamp_max_(outside);
  const torch::Tensor entries = pixels.index_select(0, places.flatten()) + common[kOffsets];
  torch::Tensor images = common[kTable]
                             .index_select(0, entries.flatten())
                             .view({count, rows_, columns_, images_.shape.channels});
  if (!padding_is_black_)
    images = torch::where((places == outside).unsqueeze(3), common[kPadding], images);
  images = images.permute({0, 3, 1, 2});
  if (!options_.channels_last) images = images.contiguous();
  return Batch{std::move(images), std::move(target)};
}

}  // namespace cohort::train
