#include "cli/prompt_images.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/problems.h"
#include "cli/image_file.h"
#include "cli/progress_display.h"
#include "cli/signals.h"
#include "text/utf8_repair.h"

namespace fathom {
namespace {

// Short enough for a line that holds a bar, too.
std::string shown_name(const std::filesystem::path& file) {
  constexpr size_t max_bytes = 32;
  const std::string name = file.filename().string();
  return is_valid_utf8(name) ? without_controls(printable(name, max_bytes)) : "image";
}

}  // namespace

Result<std::shared_ptr<const ImageEmbedding>> PromptImages::load(const std::filesystem::path& file) {
  if (!model_.tensors().vision_available())
    return fail(ErrorCode::unsupported, "{}: this model takes no images: {}", file.string(),
                in_one_line(model_.tensors().vision_problem()));
  FATHOM_ASSIGN(const std::string bytes, read_image_file(file));
  FATHOM_ASSIGN(const PreparedImage image, prepare_image(std::as_bytes(std::span(bytes)), file.string(),
                                                         image_rules(*model_.config().vision)));
  std::shared_ptr<const ImageEmbedding>& embedding = embedded_[image.identity];
  if (embedding != nullptr) return embedding;
  ProgressDisplay progress =
      progress_display(surroundings_, quiet_, {.what = shown_name(file), .unit = "blocks"});
  auto made = model_.embed_image(
      image, {.progress = [&](int64_t done, int64_t total) { progress.update(done, total); },
              .cancelled = interrupted});
  progress.clear();
  if (made) return embedding = std::move(made).value();
  embedded_.erase(image.identity);
  if (made.error().code == ErrorCode::cancelled) return fail(std::move(made).error());
  return fail(made.error().code, "{}: {}", file.string(), made.error().message);
}

Json PromptImages::message_part(const ImageEmbedding& image) {
  return {{"type", "image_url"}, {"image_url", {{"url", image.identity.to_hex()}}}};
}

Result<Prompt> PromptImages::place(const RenderedPrompt& rendered) const {
  FATHOM_ASSIGN(const std::vector<int32_t> ids, model_.tokenizer().encode(rendered.segments));
  std::vector<std::shared_ptr<const ImageEmbedding>> images;
  for (const Json& record : rendered.images) {
    const auto found = std::find_if(embedded_.begin(), embedded_.end(),
                                    [&](const auto& entry) { return record["url"] == entry.first.to_hex(); });
    FATHOM_CHECK(found != embedded_.end());
    images.push_back(found->second);
  }
  return place_images(ids, images, static_cast<int32_t>(model_.config().image_token_id));
}

Result<Prompt> PromptImages::place(const std::string& text,
                                   std::span<const std::shared_ptr<const ImageEmbedding>> images) const {
  FATHOM_ASSIGN(std::vector<int32_t> ids, model_.tokenizer().encode(text));
  const auto begin = static_cast<int32_t>(model_.config().bos_token_id);
  if (ids.empty() || ids.front() != begin) ids.insert(ids.begin(), begin);
  const auto placeholder = static_cast<int32_t>(model_.config().image_token_id);
  if (std::find(ids.begin(), ids.end(), placeholder) == ids.end())
    ids.insert(ids.begin() + 1, images.size(), placeholder);
  return place_images(ids, images, placeholder);
}

}  // namespace fathom
