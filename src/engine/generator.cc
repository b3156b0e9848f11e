#include "engine/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "sampling/stop.h"

namespace fathom {
namespace {

using Want = LanguageSequence::Want;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool cancelled(const GenerateHooks& hooks) { return hooks.cancelled && hooks.cancelled(); }

// The answer's text: tokens in, shown text to the hook and the result, up to a stop string.
class TextSink {
 public:
  TextSink(TokenDecoder& decoder, StopMatcher stops, const GenerateHooks& hooks, std::string& text)
      : decoder_(decoder), stops_(std::move(stops)), hooks_(hooks), text_(text) {}

  Status push(int32_t id) { return show(stops_.push(decoder_.push(id))); }
  /// No more tokens come; the end of the text may still complete a stop string.
  Status finish() {
    FATHOM_TRY(show(stops_.push(decoder_.finish())));
    return show(stops_.finish());
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  Status show(const std::string& text) {
    if (text.empty()) return {};
    text_ += text;
    return hooks_.text ? hooks_.text(text) : Status{};
  }

  TokenDecoder& decoder_;
  StopMatcher stops_;
  const GenerateHooks& hooks_;
  std::string& text_;
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop_token:
    case FinishReason::stop_string:
      return "stop";
    case FinishReason::max_tokens:
    case FinishReason::context_full:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "?";
}

Generator::Generator(LanguageModel& model, int64_t prefill_chunk)
    : model_(model), prefill_chunk_(prefill_chunk) {
  FATHOM_CHECK_LE(1, prefill_chunk);
}

Status Generator::check(const GenerateRequest& request) const {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0)
    return fail(ErrorCode::invalid_argument, "prompt: expected at least one token, found none");
  if (length >= model_.max_length())
    return fail(ErrorCode::invalid_argument,
                "prompt: expected fewer tokens than the context holds ({}), found {}", model_.max_length(),
                length);
  if (request.max_tokens < 1)
    return fail(ErrorCode::invalid_argument, "max_tokens: expected at least 1, found {}", request.max_tokens);
  return {};
}

Result<std::span<const float>> Generator::extend(std::span<const int32_t> ids, Want want) {
  auto logits = sequence_->extend(ids, want);
  if (logits) {
    held_.insert(held_.end(), ids.begin(), ids.end());
  } else {
    sequence_.reset();
    held_.clear();
  }
  return logits;
}

// Gives the logits after the prompt, or an empty span when cancelled on the way.
Result<std::span<const float>> Generator::prefill(const GenerateRequest& request, const GenerateHooks& hooks,
                                                  Generation& out) {
  const std::vector<int32_t>& prompt = request.prompt;
  // At least the last token is computed: its logits are needed.
  const bool continues =
      sequence_ && held_.size() < prompt.size() && std::equal(held_.begin(), held_.end(), prompt.begin());
  if (!continues) {
    sequence_.reset();  // first, so that two never stand in memory
    held_.clear();
    FATHOM_ASSIGN(sequence_, model_.new_sequence());
  }
  out.cached_tokens = static_cast<int64_t>(held_.size());
  const auto total = static_cast<int64_t>(prompt.size());
  for (int64_t done = out.cached_tokens;;) {
    if (hooks.prefill) hooks.prefill(done, total);
    if (cancelled(hooks)) return std::span<const float>{};
    const int64_t rows = std::min(prefill_chunk_, total - done);
    const bool last = done + rows == total;
    FATHOM_ASSIGN(const auto logits,
                  extend(std::span(prompt).subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                         last ? Want::last_logits : Want::nothing));
    done += rows;
    if (!last) continue;
    if (hooks.prefill) hooks.prefill(total, total);
    return logits;
  }
}

Result<Generation> Generator::run(const GenerateRequest& request, TokenDecoder& decoder,
                                  const GenerateHooks& hooks) {
  FATHOM_TRY(check(request));
  FATHOM_ASSIGN(Sampler sampler,
                Sampler::make(request.sampling, model_.vocab_size(), request.prompt, request.stream));
  FATHOM_ASSIGN(StopMatcher stops, StopMatcher::make(request.stop));
  Generation out;
  out.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  TextSink text(decoder, std::move(stops), hooks, out.text);

  const auto start = std::chrono::steady_clock::now();
  FATHOM_ASSIGN(auto logits, prefill(request, hooks, out));
  out.prefill_seconds = seconds_since(start);
  const auto decode_start = std::chrono::steady_clock::now();

  for (;;) {
    if (logits.empty() || cancelled(hooks)) {
      out.reason = FinishReason::cancelled;
      break;
    }
    FATHOM_ASSIGN(const int32_t id, sampler.sample(logits, scratch_));
    sampler.accept(id);
    out.ids.push_back(id);
    if (contains(request.stop_ids, id)) {
      out.reason = FinishReason::stop_token;
      break;
    }
    FATHOM_TRY(text.push(id));
    if (text.stopped()) {
      out.reason = FinishReason::stop_string;
      break;
    }
    if (std::cmp_greater_equal(out.ids.size(), request.max_tokens)) {
      out.reason = FinishReason::max_tokens;
      break;
    }
    if (std::cmp_greater_equal(held_.size() + 1, model_.max_length())) {
      out.reason = FinishReason::context_full;
      break;
    }
    FATHOM_ASSIGN(logits, extend(std::span(&id, 1), Want::last_logits));
  }
  FATHOM_TRY(text.finish());
  if (text.stopped()) out.reason = FinishReason::stop_string;
  out.decode_seconds = seconds_since(decode_start);
  return out;
}

}  // namespace fathom
