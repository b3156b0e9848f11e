// A PNG file to patches. Chunks get the checksums that they should have, or hardly any change would come
// further than them.
#include "fuzz/image_fuzz.h"

namespace {

uint32_t read_number(const std::byte* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(at[i]);
  return value;
}

// As the PNG standard defines it.
uint32_t checksum(const std::byte* data, size_t size) {
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<uint32_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

void mend_checksums(std::vector<std::byte>& file) {
  for (size_t begin = 8; begin + 12 <= file.size();) {
    const size_t length = read_number(file.data() + begin);
    if (length > file.size() - begin - 12) return;
    const uint32_t crc = checksum(file.data() + begin + 4, length + 4);
    for (size_t i = 0; i < 4; ++i)
      file[begin + 8 + length + i] = static_cast<std::byte>((crc >> (24 - 8 * i)) & 0xFF);
    begin += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file = fathom::with_magic(data, size, "\x89PNG\r\n\x1a\n");
  mend_checksums(file);
  fathom::check_image(file);
  return 0;
}
