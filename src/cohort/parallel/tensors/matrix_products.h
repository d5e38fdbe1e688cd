#pragma once

#include <cstdint>
#include <string>

namespace cohort::parallel {

// Which library multiplies matrices of f32 on the CPU, for layers as for everything else.
// torch: what LibTorch takes, which is MKL. onednn: the library that LibTorch brings for
// convolutions. automatic: onednn where MKL leaves half of the processor unused, which is so on
// processors with AVX-512 that are not Intel's; torch elsewhere.
enum class MatrixProducts : std::uint8_t { automatic, torch, onednn };

// "auto", "torch", "onednn". Throws InvalidInput.
MatrixProducts parse_matrix_products(const std::string& text);
std::string to_string(MatrixProducts products);

// Chooses for this process, from the next product on; returns what it is: torch or onednn. Products
// round differently by either, so weights have the same bits only where the choice is the same.
// Small products stay with MKL, which starts faster; which ones depends on their sizes alone.
// at::globalContext().setUserEnabledMkldnn(false) keeps oneDNN out, as elsewhere in LibTorch.
//
// oneDNN comes in by kernels of this module in the place of LibTorch's for mm and addmm, which
// hand on whatever is not theirs. They stay for the life of the process.
//
// Threads: thread-safe, but products under way in other threads may be of either choice. Failure:
// InvalidInput for onednn with a LibTorch that does not have it.
MatrixProducts choose_matrix_products(MatrixProducts wanted);

}  // namespace cohort::parallel
