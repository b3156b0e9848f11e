// GIF, by giflib: the first frame, where it lies on the screen that the file declares.

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "image/formats.h"

namespace fathom::internal {
namespace {

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, CloseGif>;

int on_read(GifFileType* gif, GifByteType* out, int length) {
  auto& rest = *static_cast<std::span<const std::byte>*>(gif->UserData);
  const size_t count = std::min(rest.size(), static_cast<size_t>(std::max(length, 0)));
  std::memcpy(out, rest.data(), count);
  rest = rest.subspan(count);
  return static_cast<int>(count);
}

tl::unexpected<Error> damaged(std::string_view what, int code) {
  const char* reason = GifErrorString(code);
  return fail(ErrorCode::format, "{}: a damaged or truncated GIF: {}", what,
              reason == nullptr ? "no picture" : reason);
}

// Passes over an extension; of a graphics control block the transparent index is kept, if it has one.
bool read_extension(GifFileType* gif, int& transparent) {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif, &code, &block) != GIF_OK) return false;
  while (block != nullptr) {
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
        control.TransparentColor != NO_TRANSPARENT_COLOR)
      transparent = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &block) != GIF_OK) return false;
  }
  return true;
}

// Reads up to the first frame's description.
bool find_first_frame(GifFileType* gif, int& transparent) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) != GIF_OK) return false;
    if (record == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(gif) == GIF_OK;
    if (record != EXTENSION_RECORD_TYPE || !read_extension(gif, transparent)) return false;
  }
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

// Indices without a colour are greys.
Palette palette_of(const GifFileType& gif) {
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<uint8_t>(i));
  const ColorMapObject* colors = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  if (colors == nullptr) return palette;
  for (size_t i = 0; i < static_cast<size_t>(colors->ColorCount); ++i)
    palette[i] = {colors->Colors[i].Red, colors->Colors[i].Green, colors->Colors[i].Blue};
  return palette;
}

// The frame's rows in the order of the file.
std::vector<int> row_order(const GifImageDesc& frame) {
  struct Pass {
    int first, step;
  };
  static constexpr Pass plain[] = {{0, 1}};
  static constexpr Pass interlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  std::vector<int> rows;
  rows.reserve(static_cast<size_t>(frame.Height));
  for (const Pass& pass : frame.Interlace ? std::span<const Pass>(interlaced) : std::span<const Pass>(plain))
    for (int row = pass.first; row < frame.Height; row += pass.step) rows.push_back(row);
  return rows;
}

bool read_frame(GifFileType* gif, const Palette& palette, RgbImage& canvas) {
  const GifImageDesc& frame = gif->Image;
  std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
  for (const int row : row_order(frame)) {
    if (DGifGetLine(gif, line.data(), frame.Width) != GIF_OK) return false;
    uint8_t* out = canvas.pixels.data() + 3 * ((frame.Top + row) * canvas.width + frame.Left);
    for (const GifPixelType index : line) out = std::copy_n(palette[index].begin(), 3, out);
  }
  return true;
}

}  // namespace

Result<RgbImage> decode_gif(std::span<const std::byte> bytes, std::string_view what,
                            const ImageLimits& limits) {
  int error = 0;
  const Gif gif(DGifOpen(&bytes, on_read, &error));
  if (gif == nullptr) return damaged(what, error);
  int transparent = NO_TRANSPARENT_COLOR;
  if (!find_first_frame(gif.get(), transparent)) return damaged(what, gif->Error);
  const GifImageDesc& frame = gif->Image;
  if (frame.Width < 1 || frame.Height < 1)
    return fail(ErrorCode::format, "{}: a damaged GIF: a frame of {} x {} pixels", what, frame.Width,
                frame.Height);
  // The frame may exceed the screen, which then grows.
  FATHOM_ASSIGN(RgbImage canvas, new_image(std::max(gif->SWidth, frame.Left + frame.Width),
                                           std::max(gif->SHeight, frame.Top + frame.Height), what, limits));
  const Palette palette = palette_of(*gif);
  const auto& background =
      palette[transparent == NO_TRANSPARENT_COLOR ? 0 : static_cast<size_t>(transparent)];
  for (auto out = canvas.pixels.begin(); out != canvas.pixels.end();)
    out = std::copy(background.begin(), background.end(), out);
  if (!read_frame(gif.get(), palette, canvas)) return damaged(what, gif->Error);
  return canvas;
}

}  // namespace fathom::internal
