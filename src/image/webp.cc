// WebP, by libwebp. Of an animated one the first frame, where it lies on its black canvas.

#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "base/check.h"
#include "image/formats.h"

namespace fathom::internal {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

// The first frame, released at the end of the scope.
class FirstFrame {
 public:
  explicit FirstFrame(const WebPDemuxer* demuxer) : found_(WebPDemuxGetFrame(demuxer, 1, &frame_) != 0) {}
  ~FirstFrame() { WebPDemuxReleaseIterator(&frame_); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;

  bool found() const { return found_ && frame_.complete != 0; }
  const WebPIterator& operator*() const { return frame_; }

 private:
  WebPIterator frame_ = {};
  bool found_;
};

// Whether the frame's own header says the size that its container gave.
bool size_agrees(const WebPIterator& frame) {
  int width = 0, height = 0;
  return WebPGetInfo(frame.fragment.bytes, frame.fragment.size, &width, &height) != 0 &&
         width == frame.width && height == frame.height;
}

bool lies_within(const WebPIterator& frame, const RgbImage& canvas) {
  return frame.x_offset >= 0 && frame.y_offset >= 0 &&
         int64_t{frame.x_offset} + frame.width <= canvas.width &&
         int64_t{frame.y_offset} + frame.height <= canvas.height;
}

}  // namespace

Result<RgbImage> decode_webp(std::span<const std::byte> bytes, std::string_view what,
                             const ImageLimits& limits) {
  const WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  if (demuxer == nullptr) return fail(ErrorCode::format, "{}: a damaged or truncated WebP", what);
  FATHOM_ASSIGN(RgbImage canvas,
                new_image(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH),
                          WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT), what, limits));
  const FirstFrame first(demuxer.get());
  if (!first.found() || !size_agrees(*first) || !lies_within(*first, canvas))
    return fail(ErrorCode::format, "{}: a damaged WebP: no whole first frame", what);
  const WebPIterator& frame = *first;
  const int64_t stride = 3 * canvas.width;
  const int64_t offset = frame.y_offset * stride + 3 * int64_t{frame.x_offset};
  const size_t room = canvas.pixels.size() - static_cast<size_t>(offset);
  WebPDecoderConfig config;
  FATHOM_CHECK(WebPInitDecoderConfig(&config) != 0);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {canvas.pixels.data() + offset, static_cast<int>(stride), room};
  const VP8StatusCode status = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) return fail(ErrorCode::out_of_memory, "{}: no memory", what);
  if (status != VP8_STATUS_OK) return fail(ErrorCode::format, "{}: a damaged WebP", what);
  return canvas;
}

}  // namespace fathom::internal
