#include "image/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace fathom {
namespace {

constexpr int fraction_bits = 22;
constexpr uint8_t grey = 127;

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

// What one output sample mixes: `count` input samples from `first` on, with weights from `weights` on.
struct Window {
  int64_t first = 0;
  int64_t count = 0;
  size_t weights = 0;
};

struct Filter {
  std::vector<Window> windows;   // one for each output sample
  std::vector<int32_t> weights;  // fixed point
};

// The window of the output sample whose middle lies at `centre` of the input.
void add_window(double centre, double widening, int64_t input, Filter& filter) {
  const double support = 2.0 * widening;
  const double per_step = 1.0 / widening;
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), input);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = first; i < end; ++i) {
    weights.push_back(cubic((static_cast<double>(i) - centre + 0.5) * per_step));
    sum += weights.back();
  }
  filter.windows.push_back({first, end - first, filter.weights.size()});
  for (const double weight : weights)
    filter.weights.push_back(static_cast<int32_t>(std::round(weight / sum * (1 << fraction_bits))));
}

Filter make_filter(int64_t input, int64_t output) {
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  Filter filter;
  filter.windows.reserve(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i)
    add_window((static_cast<double>(i) + 0.5) * scale, std::max(scale, 1.0), input, filter);
  return filter;
}

constexpr int32_t half = 1 << (fraction_bits - 1);  // sums start here, to round
uint8_t level_of(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> fraction_bits, 0, 255)); }

RgbImage resize_columns(const RgbImage& image, int64_t width) {
  const Filter filter = make_filter(image.width, width);
  RgbImage out{width, image.height, {}};
  out.pixels.reserve(static_cast<size_t>(3 * width * image.height));
  for (int64_t row = 0; row < image.height; ++row) {
    const uint8_t* line = image.pixels.data() + 3 * row * image.width;
    for (const Window& window : filter.windows) {
      const uint8_t* in = line + 3 * window.first;
      const int32_t* weights = filter.weights.data() + window.weights;
      int32_t red = half, green = half, blue = half;  // apart, so that they stay in registers
      for (int64_t i = 0; i < window.count; ++i, in += 3) {
        red += in[0] * weights[i];
        green += in[1] * weights[i];
        blue += in[2] * weights[i];
      }
      for (const int32_t sum : {red, green, blue}) out.pixels.push_back(level_of(sum));
    }
  }
  return out;
}

RgbImage resize_rows(const RgbImage& image, int64_t height) {
  const Filter filter = make_filter(image.height, height);
  const auto stride = static_cast<size_t>(3 * image.width);
  RgbImage out{image.width, height, {}};
  out.pixels.reserve(stride * static_cast<size_t>(height));
  std::vector<int32_t> sums(stride);
  for (const Window& window : filter.windows) {
    std::fill(sums.begin(), sums.end(), half);
    for (int64_t i = 0; i < window.count; ++i) {
      const uint8_t* in = image.pixels.data() + stride * static_cast<size_t>(window.first + i);
      const int32_t weight = filter.weights[window.weights + static_cast<size_t>(i)];
      for (size_t j = 0; j < stride; ++j) sums[j] += in[j] * weight;
    }
    for (const int32_t sum : sums) out.pixels.push_back(level_of(sum));
  }
  return out;
}

// Rounds to nearest, ties to even (the default rounding mode).
int64_t round_to_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

}  // namespace

RgbImage resize_bicubic(RgbImage image, int64_t width, int64_t height) {
  FATHOM_CHECK(width >= 1 && height >= 1);
  if (width != image.width) image = resize_columns(image, width);
  if (height != image.height) image = resize_rows(image, height);
  return image;
}

RgbImage fit_on_grey(RgbImage image, int64_t width, int64_t height) {
  const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  const auto canvas_w = static_cast<double>(width), canvas_h = static_cast<double>(height);
  int64_t fit_width = width, fit_height = height;
  if (w / h > canvas_w / canvas_h)
    fit_height = std::max<int64_t>(round_to_even(h / w * canvas_w), 1);
  else if (w / h < canvas_w / canvas_h)
    fit_width = std::max<int64_t>(round_to_even(w / h * canvas_h), 1);
  image = resize_bicubic(std::move(image), fit_width, fit_height);
  if (fit_width == width && fit_height == height) return image;
  const int64_t left = round_to_even(static_cast<double>(width - fit_width) * 0.5);
  const int64_t top = round_to_even(static_cast<double>(height - fit_height) * 0.5);
  RgbImage out{width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height), grey)};
  for (int64_t row = 0; row < fit_height; ++row)
    std::copy_n(image.pixels.begin() + 3 * row * fit_width, 3 * fit_width,
                out.pixels.begin() + 3 * ((top + row) * width + left));
  return out;
}

}  // namespace fathom
