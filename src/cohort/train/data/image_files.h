#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/train/data/data_file.h"
#include "cohort/train/data/image_store.h"

// Image data sets in their files. Every complaint is InvalidInput: the file, what was expected, and
// the command that gets a good one.
namespace cohort::train {

enum class Split { kTrain, kTest };
// kMemory reads everything now; kStream leaves the files on disk and reads what each batch needs (a
// gzip file is first unpacked into a nameless temporary file, in TMPDIR).
enum class Storage { kMemory, kStream };

// IDX3 images and IDX1 labels, gzip or plain. Labels are 0 to classes - 1.
std::shared_ptr<const ImageStore> open_idx_images(const DataFile& images, const DataFile& labels,
                                                  int classes, Storage storage);

// {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] of a folder. `name` is that of the data set for
// scripts/get-data: "mnist" or "fashion-mnist".
std::shared_ptr<const ImageStore> open_mnist(const std::filesystem::path& folder, Split split,
                                             Storage storage, std::string_view name);

// Throws unless the images of data set `name`, read from `folder`, have this shape: a program that
// asks for a data set by name builds a model for its images.
void expect_shape(const ImageStore& images, const ImageShape& shape, std::string_view name,
                  const std::filesystem::path& folder);

// data_batch_1.bin to data_batch_5.bin, or test_batch.bin: 10,000 records of a label and 3 x 32 x
// 32 pixels each. `folder` is cifar-10-batches-bin itself, or the folder that it lies in.
std::shared_ptr<const ImageStore> open_cifar10(const std::filesystem::path& folder, Split split,
                                               Storage storage);

// The folder of a data set ("fashion-mnist", "mnist" or "cifar10"): `data_dir` when it is not
// empty; else, for Fashion-MNIST, where Debian's package puts it. InvalidInput, with the command
// that fetches the data, when there is no such folder.
std::filesystem::path data_folder(std::string_view name, const std::string& data_dir);

}  // namespace cohort::train
