#include "engine/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "sampling/stop.h"

namespace fathom {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

// The answer as it grows: takes token by token, and knows which is the last.
class Generator::Answer {
 public:
  Answer(const GenerateRequest& request, int64_t max_length, TextSink text, Generation& out)
      : request_(request), room_(max_length - out.prompt_tokens), text_(std::move(text)), out_(out) {}

  Status take(int32_t id) {
    out_.ids.push_back(id);
    if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), id) != request_.stop_ids.end()) {
      end(FinishReason::stop_token);
      return {};
    }
    FATHOM_TRY(text_.push(id));
    const auto length = static_cast<int64_t>(out_.ids.size());
    if (text_.stopped())
      end(FinishReason::stop_string);
    else if (length >= request_.max_tokens)
      end(FinishReason::max_tokens);
    else if (length >= room_)
      end(FinishReason::context_full);
    return {};
  }
  void end(FinishReason reason) {
    out_.reason = reason;
    ended_ = true;
  }
  bool ended() const { return ended_; }
  int32_t newest() const { return out_.ids.back(); }
  int64_t prompt_tokens() const { return out_.prompt_tokens; }
  /// Tokens that it may still take.
  int64_t left() const {
    return std::min(request_.max_tokens, room_) - static_cast<int64_t>(out_.ids.size());
  }
  /// No more tokens come; the end of the text may still complete a stop string.
  Status finish() {
    FATHOM_TRY(text_.finish());
    if (text_.stopped()) out_.reason = FinishReason::stop_string;
    return {};
  }

 private:
  const GenerateRequest& request_;
  int64_t room_;  // in the context, after the prompt
  TextSink text_;
  Generation& out_;
  bool ended_ = false;
};

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

Result<std::span<const float>> Generator::extend(std::span<const int32_t> ids, int64_t num_logits) {
  auto logits = sequence_->extend(ids, num_logits, held_images_);
  if (logits)
    held_.insert(held_.end(), ids.begin(), ids.end());
  else
    forget();
  return logits;
}

void Generator::take_back(size_t n) {
  if (n == 0) return;
  sequence_->rewind(static_cast<int64_t>(n));
  held_.resize(held_.size() - n);
}

void Generator::forget() {
  sequence_.reset();
  held_.clear();
  held_images_.clear();
}

// Gives the logits after the prompt, or an empty span when cancelled on the way.
Result<std::span<const float>> Generator::prefill(const GenerateRequest& request, const GenerateHooks& hooks,
                                                  Generation& out) {
  const std::vector<int32_t>& prompt = request.prompt;
  // At least the last token is computed: its logits are needed.
  const bool continues = sequence_ && held_.size() < prompt.size() &&
                         std::equal(held_.begin(), held_.end(), prompt.begin()) &&
                         same_images(held_images_, request.images, static_cast<int64_t>(held_.size()));
  if (!continues) {
    forget();  // first, so that two never stand in memory
    FATHOM_ASSIGN(sequence_, model_.new_sequence());
  }
  held_images_ = request.images;
  out.cached_tokens = static_cast<int64_t>(held_.size());
  const auto total = static_cast<int64_t>(prompt.size());
  for (int64_t done = out.cached_tokens;;) {
    if (hooks.prefill) hooks.prefill(done, total);
    if (cancelled(hooks)) return std::span<const float>{};
    const int64_t rows = std::min(prefill_chunk_, total - done);
    const bool last = done + rows == total;
    FATHOM_ASSIGN(const auto logits,
                  extend(std::span(prompt).subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                         last ? 1 : 0));
    done += rows;
    if (!last) continue;
    if (hooks.prefill) hooks.prefill(total, total);
    return logits;
  }
}

// Drafts after the answer's newest token. Where drafting fails, it is given up and the answer goes on.
std::vector<int32_t> Generator::draft(const GenerateRequest& request, const Sampler& sampler,
                                      const Answer& answer, DraftStats& stats) {
  // Every pass gives one more token than it has accepted drafts.
  const int64_t most = std::min({request.drafting.max_drafts, model_.max_drafts(), answer.left() - 1});
  if (most < 1 || !stats.problem.empty()) return {};
  auto drafts = draft_tokens(*sequence_, sampler, answer.newest(), most, request.drafting,
                             model_.draft_costs(), scratch_);
  if (drafts) return std::move(drafts).value();
  stats.problem = drafts.error().message;
  return {};
}

// Draws a token after each row of the last pass while the row after it is there, that is while the draw is
// the next draft; takes the rows of wrong drafts back.
Status Generator::settle(std::span<const float> logits, std::span<const int32_t> drafts, Sampler& sampler,
                         Answer& answer, DraftStats& stats) {
  const auto vocab = static_cast<size_t>(model_.vocab_size());
  for (size_t row = 0;; ++row) {
    FATHOM_ASSIGN(const int32_t id, sampler.sample(logits.subspan(row * vocab, vocab), scratch_));
    sampler.accept(id);
    FATHOM_TRY(answer.take(id));
    const bool accepted = row < drafts.size() && drafts[row] == id;
    if (accepted) ++stats.accepted;
    if (accepted && !answer.ended()) continue;
    const size_t wrong = drafts.size() - row - (accepted ? 1 : 0);
    stats.settled = static_cast<int64_t>(held_.size() - wrong) - answer.prompt_tokens();
    take_back(drafts.size() - row);  // the answer's newest token is never among the rows
    return {};
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
  Answer answer(request, model_.max_length(), TextSink(decoder, std::move(stops), hooks, out.text), out);

  const auto start = std::chrono::steady_clock::now();
  FATHOM_ASSIGN(auto logits, prefill(request, hooks, out));
  out.prefill_seconds = seconds_since(start);
  const auto decode_start = std::chrono::steady_clock::now();

  std::vector<int32_t> drafts;  // of the last pass: rows after the answer's newest token
  for (;;) {
    if (logits.empty() || cancelled(hooks)) {
      take_back(drafts.size());
      if (out.drafts.passes > 0) out.drafts.settled = static_cast<int64_t>(held_.size()) - out.prompt_tokens;
      answer.end(FinishReason::cancelled);
      break;
    }
    FATHOM_TRY(settle(logits, drafts, sampler, answer, out.drafts));
    if (answer.ended()) break;
    drafts = draft(request, sampler, answer, out.drafts);
    std::vector<int32_t> rows = {answer.newest()};
    rows.insert(rows.end(), drafts.begin(), drafts.end());
    FATHOM_ASSIGN(logits, extend(rows, static_cast<int64_t>(rows.size())));
    ++out.drafts.passes;
    out.drafts.offered += static_cast<int64_t>(drafts.size());
  }
  FATHOM_TRY(answer.finish());
  out.decode_seconds = seconds_since(decode_start);
  return out;
}

}  // namespace fathom
