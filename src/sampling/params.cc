#include "sampling/params.h"

#include <cmath>
#include <string_view>

namespace fathom {
namespace {

Status check_range(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::invalid_argument, "{}: expected a number from {} to {}, found {}", field, low, high,
              value);
}

}  // namespace

Status SamplingParams::validate(int64_t vocab_size) const {
  if (!std::isfinite(temperature) || temperature < 0)
    return fail(ErrorCode::invalid_argument, "temperature: expected a finite number of at least 0, found {}",
                temperature);
  if (top_k < 0)
    return fail(ErrorCode::invalid_argument, "top_k: expected at least 0 (0 is off), found {}", top_k);
  FATHOM_TRY(check_range("top_p", top_p, 0, 1));
  FATHOM_TRY(check_range("min_p", min_p, 0, 1));
  if (!std::isfinite(repetition_penalty) || repetition_penalty <= 0)
    return fail(ErrorCode::invalid_argument, "repetition_penalty: expected a finite number above 0, found {}",
                repetition_penalty);
  FATHOM_TRY(check_range("presence_penalty", presence_penalty, -2, 2));
  FATHOM_TRY(check_range("frequency_penalty", frequency_penalty, -2, 2));
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0 || id >= vocab_size)
      return fail(ErrorCode::invalid_argument, "logit_bias: expected token ids from 0 to {}, found {}",
                  vocab_size - 1, id);
    if (!(bias >= -100 && bias <= 100))
      return fail(ErrorCode::invalid_argument, "logit_bias: expected -100 to 100 for token {}, found {}", id,
                  bias);
  }
  return {};
}

}  // namespace fathom
