#include "text/tokenizer_file.h"

#include <limits>

#include "base/json.h"
#include "text/json_fields.h"

namespace fathom {
namespace {

// Without the path of the value, which a caller with many of them makes only for a message.
Result<int32_t> read_id(const Json& value) {
  // One below the largest, so that the number of ids is an int32_t too.
  constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= limit)
    return fail(ErrorCode::format, "expected an id from 0 to {}, found {}", limit - 1, describe(value));
  return static_cast<int32_t>(value.get<uint64_t>());
}

Status read_vocab(const Json& value, const std::string& path, TokenizerFile& file) {
  if (!value.is_object())
    return fail(ErrorCode::format, "{}: expected an object, found {}", path, describe(value));
  file.vocab.reserve(value.size());
  for (const auto& [token, id] : value.get_ref<const Json::object_t&>()) {
    const auto number = read_id(id);
    if (!number)
      return fail(ErrorCode::format, "{}[{}]: {}", path, describe(Json(token)), number.error().message);
    file.vocab.emplace_back(token, *number);
  }
  return {};
}

// Both spellings: "a b" and ["a", "b"].
Status read_merge(const Json& value, std::pair<std::string, std::string>& out) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      out = {text.substr(0, space), text.substr(space + 1)};
      return {};
    }
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    out = {value[0].get<std::string>(), value[1].get<std::string>()};
    return {};
  }
  return fail(ErrorCode::format, "expected \"a b\" or [\"a\", \"b\"], found {}", describe(value));
}

Status read_merges(const Json& value, const std::string& path, TokenizerFile& file) {
  if (!value.is_array())
    return fail(ErrorCode::format, "{}: expected an array, found {}", path, describe(value));
  file.merges.resize(value.size());
  for (size_t i = 0; i < value.size(); ++i)
    if (const Status status = read_merge(value[i], file.merges[i]); !status)
      return fail(ErrorCode::format, "{}[{}]: {}", path, i, status.error().message);
  return {};
}

Status read_model(const Json& value, const std::string& path, TokenizerFile& file) {
  FATHOM_ASSIGN(const JsonFields model, JsonFields::of(value, path));
  FATHOM_TRY(model.must_equal("type", "BPE"));
  FATHOM_TRY(model.must_be_null("dropout"));
  FATHOM_TRY(model.must_be_null("unk_token"));
  FATHOM_TRY(model.must_be("continuing_subword_prefix", ""));
  FATHOM_TRY(model.must_be("end_of_word_suffix", ""));
  FATHOM_TRY(model.must_be("fuse_unk", false));
  FATHOM_TRY(model.must_be("byte_fallback", false));
  FATHOM_TRY(model.only(
      {"type", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "vocab", "merges"}));
  FATHOM_ASSIGN(file.ignore_merges, model.boolean("ignore_merges", false));
  FATHOM_ASSIGN(const Json* vocab, model.required("vocab"));
  FATHOM_TRY(read_vocab(*vocab, model.path_of("vocab"), file));
  FATHOM_ASSIGN(const Json* merges, model.required("merges"));
  return read_merges(*merges, model.path_of("merges"), file);
}

Result<AddedTokenEntry> read_added_token(const Json& value, const std::string& path) {
  FATHOM_ASSIGN(const JsonFields token, JsonFields::of(value, path));
  FATHOM_TRY(token.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedTokenEntry entry;
  FATHOM_ASSIGN(const Json* id, token.required("id"));
  const auto number = read_id(*id);
  if (!number) return fail(ErrorCode::format, "{}: {}", token.path_of("id"), number.error().message);
  entry.id = *number;
  FATHOM_ASSIGN(entry.content, token.string("content"));
  if (entry.content.empty())
    return fail(ErrorCode::format, "{}: expected a text, found none", token.path_of("content"));
  FATHOM_ASSIGN(entry.single_word, token.boolean("single_word"));
  FATHOM_ASSIGN(entry.lstrip, token.boolean("lstrip"));
  FATHOM_ASSIGN(entry.rstrip, token.boolean("rstrip"));
  FATHOM_ASSIGN(entry.normalized, token.boolean("normalized"));
  FATHOM_ASSIGN(entry.special, token.boolean("special"));
  return entry;
}

Status read_added_tokens(const Json* value, const std::string& path, TokenizerFile& file) {
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_array())
    return fail(ErrorCode::format, "{}: expected an array, found {}", path, describe(*value));
  file.added.reserve(value->size());
  for (size_t i = 0; i < value->size(); ++i) {
    FATHOM_ASSIGN(AddedTokenEntry entry, read_added_token((*value)[i], fmt::format("{}[{}]", path, i)));
    file.added.push_back(std::move(entry));
  }
  return {};
}

Status read_normalizer(const Json* value, const std::string& path) {
  if (value == nullptr || value->is_null()) return {};
  FATHOM_ASSIGN(const JsonFields normalizer, JsonFields::of(*value, path));
  FATHOM_TRY(normalizer.must_equal("type", "Sequence"));
  FATHOM_TRY(normalizer.must_equal("normalizers", Json::array()));
  return normalizer.only({"type", "normalizers"});
}

Status read_split(const JsonFields& split, TokenizerFile& file) {
  FATHOM_TRY(split.only({"type", "pattern", "behavior", "invert"}));
  FATHOM_TRY(split.must_equal("behavior", "Isolated"));
  FATHOM_TRY(split.must_be("invert", false));
  FATHOM_ASSIGN(const Json* value, split.required("pattern"));
  FATHOM_ASSIGN(const JsonFields pattern, JsonFields::of(*value, split.path_of("pattern")));
  FATHOM_TRY(pattern.only({"Regex"}));
  FATHOM_ASSIGN(std::string regex, pattern.string("Regex"));
  file.split_patterns.push_back(std::move(regex));
  return {};
}

// The byte map, which comes last: what it makes of a text is no longer text.
Status read_byte_level(const JsonFields& step) {
  FATHOM_TRY(step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  FATHOM_TRY(step.must_equal("type", "ByteLevel"));
  FATHOM_TRY(step.must_equal("add_prefix_space", false));
  return step.must_equal("use_regex", false);
}

Status read_pre_tokenizer(const Json& value, const std::string& path, TokenizerFile& file) {
  FATHOM_ASSIGN(const JsonFields outer, JsonFields::of(value, path));
  FATHOM_ASSIGN(const std::string type, outer.string("type"));
  if (type != "Sequence") return read_byte_level(outer);
  FATHOM_TRY(outer.only({"type", "pretokenizers"}));
  FATHOM_ASSIGN(const Json* steps, outer.required("pretokenizers"));
  const std::string steps_path = outer.path_of("pretokenizers");
  if (!steps->is_array() || steps->empty())
    return fail(ErrorCode::format, "{}: expected an array that ends with ByteLevel, found {}", steps_path,
                describe(*steps));
  for (size_t i = 0; i < steps->size(); ++i) {
    FATHOM_ASSIGN(const JsonFields step, JsonFields::of((*steps)[i], fmt::format("{}[{}]", steps_path, i)));
    if (i + 1 == steps->size()) return read_byte_level(step);
    FATHOM_TRY(step.must_equal("type", "Split"));
    FATHOM_TRY(read_split(step, file));
  }
  return {};
}

// The post-processor may only move offsets, which are not kept here.
Status read_post_processor(const Json* value, const std::string& path) {
  if (value == nullptr || value->is_null()) return {};
  FATHOM_ASSIGN(const JsonFields step, JsonFields::of(*value, path));
  FATHOM_TRY(step.must_equal("type", "ByteLevel"));
  return step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

Status read_decoder(const Json& value, const std::string& path) {
  FATHOM_ASSIGN(const JsonFields decoder, JsonFields::of(value, path));
  FATHOM_TRY(decoder.must_equal("type", "ByteLevel"));
  return decoder.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

}  // namespace

Result<TokenizerFile> parse_tokenizer_file(std::string_view json, std::string_view what) {
  FATHOM_ASSIGN(const Json document, parse_json(json, what));
  FATHOM_ASSIGN(const JsonFields root, JsonFields::of(document, std::string(what)));
  TokenizerFile file;
  file.what = what;
  FATHOM_TRY(root.must_equal("version", "1.0"));
  FATHOM_TRY(root.must_be_null("truncation"));
  FATHOM_TRY(root.must_be_null("padding"));
  FATHOM_TRY(root.only(
      {"version", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}));
  FATHOM_TRY(read_added_tokens(root.find("added_tokens"), root.path_of("added_tokens"), file));
  FATHOM_TRY(read_normalizer(root.find("normalizer"), root.path_of("normalizer")));
  FATHOM_ASSIGN(const Json* pre_tokenizer, root.required("pre_tokenizer"));
  FATHOM_TRY(read_pre_tokenizer(*pre_tokenizer, root.path_of("pre_tokenizer"), file));
  FATHOM_TRY(read_post_processor(root.find("post_processor"), root.path_of("post_processor")));
  FATHOM_ASSIGN(const Json* decoder, root.required("decoder"));
  FATHOM_TRY(read_decoder(*decoder, root.path_of("decoder")));
  FATHOM_ASSIGN(const Json* model, root.required("model"));
  FATHOM_TRY(read_model(*model, root.path_of("model"), file));
  return file;
}

}  // namespace fathom
