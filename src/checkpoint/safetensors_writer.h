// Writing safetensors files: results for comparison, test checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "tensor/view.h"

namespace fathom {

using SafetensorsMetadata = std::span<const std::pair<std::string, std::string>>;

/// The first bytes of a file whose data are `tensors` in this order without gaps: the length, the JSON
/// header, and spaces up to a multiple of 8. Only names, types and shapes are looked at. e2m1x2 is written
/// as the released checkpoints spell it, I8 with the shape in bytes. Errors: invalid_argument (a name that is
/// empty, repeated, reserved or not UTF-8).
Result<std::string> safetensors_header(std::span<const TensorView> tensors,
                                       SafetensorsMetadata metadata = {});

/// Writes `tensors` to `path`, replacing what was there only when all is written: the content goes to a
/// temporary file beside it first, which is renamed or, on failure, removed. Errors name the path: io,
/// invalid_argument as above.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         SafetensorsMetadata metadata = {});

/// Whether write_safetensors() could begin a file there: to be asked before long work. Errors: io.
Status check_writable(const std::filesystem::path& path);

}  // namespace fathom
