// A safetensors file: whatever is accepted has disjoint views inside the file, and survives being written
// again.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace {

using fathom::SafetensorsFile;
using fathom::TensorView;

void check_views(const SafetensorsFile& file, const std::byte* begin, const std::byte* end) {
  uint64_t total = 0;
  const TensorView* previous = nullptr;
  for (const TensorView& tensor : file.entries()) {
    const int64_t bytes = tensor.bytes();
    FATHOM_CHECK(bytes >= 0 && tensor.data >= begin && tensor.data <= end && bytes <= end - tensor.data);
    FATHOM_CHECK(previous == nullptr || previous->name < tensor.name);
    FATHOM_CHECK(file.find(tensor.name)->data == tensor.data);
    total += static_cast<uint64_t>(bytes);
    previous = &tensor;
  }
  FATHOM_CHECK_EQ(total, file.data_bytes());
}

// Header and data written from the views read back as the same tensors.
void check_round_trip(const SafetensorsFile& file) {
  const auto header = fathom::safetensors_header(file.entries(), file.metadata());
  if (!header) return;  // an empty name: readable, not written
  std::string copy = *header;
  for (const TensorView& tensor : file.entries())
    copy.append(reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes()));
  const auto again = SafetensorsFile::parse(std::as_bytes(std::span(copy)), "copy");
  FATHOM_CHECK(again.has_value());
  FATHOM_CHECK_EQ(again->entries().size(), file.entries().size());
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const TensorView &a = file.entries()[i], &b = again->entries()[i];
    FATHOM_CHECK(a.name == b.name && a.shape == b.shape);
    FATHOM_CHECK(a.dtype == b.dtype || a.dtype == fathom::DType::e2m1x2);
    FATHOM_CHECK(std::equal(a.data, a.data + a.bytes(), b.data));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that a read past the end is seen.
  std::vector<std::byte> file(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, file.begin());
  const auto parsed = SafetensorsFile::parse(file, "fuzz");
  if (!parsed) {
    FATHOM_CHECK(!parsed.error().message.empty() && parsed.error().message.size() < 2000);
    return 0;
  }
  check_views(*parsed, file.data(), file.data() + file.size());
  check_round_trip(*parsed);
  return 0;
}
