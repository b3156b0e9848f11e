// A WebP file to patches.
#include "fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file = fathom::with_magic(data, size, "RIFF");
  constexpr std::string_view kind = "WEBP";
  if (file.size() < 12) return 0;
  for (size_t i = 0; i < kind.size(); ++i) file[8 + i] = static_cast<std::byte>(kind[i]);
  fathom::check_image(file);
  return 0;
}
