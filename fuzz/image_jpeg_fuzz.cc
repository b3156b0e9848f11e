// A JPEG file to patches.
#include "fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fathom::check_image(fathom::with_magic(data, size, "\xff\xd8\xff"));
  return 0;
}
