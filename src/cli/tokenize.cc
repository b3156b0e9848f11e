// fathom tokenize: texts to ids and back. Needs a tokenizer.json and nothing else of a model.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/tokenizer.h"

namespace fathom {
namespace {

Result<std::vector<int32_t>> read_ids(const Json& ids, const Tokenizer& tokenizer) {
  if (!ids.is_array()) return fail(ErrorCode::invalid_argument, "ids: expected an array of token ids");
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Json& id = ids[i];
    const bool valid = id.is_number_integer() && id >= 0 && id < tokenizer.vocab_size();
    if (!valid)
      return fail(ErrorCode::invalid_argument, "ids[{}]: expected an integer from 0 to {}, found {}", i,
                  tokenizer.vocab_size() - 1,
                  id.is_number()       ? id.dump()
                  : is_big_integer(id) ? std::string(big_integer_text(id))
                                       : id.type_name());
    out.push_back(id.get<int32_t>());
  }
  return out;
}

Result<Json> decode(const Json& request, const Tokenizer& tokenizer) {
  bool skip_special = false;
  if (const auto skip = request.find("skip_special_tokens"); skip != request.end()) {
    if (!skip->is_boolean())
      return fail(ErrorCode::invalid_argument, "skip_special_tokens: expected true or false");
    skip_special = skip->get<bool>();
  }
  FATHOM_ASSIGN(const std::vector<int32_t> ids, read_ids(request["ids"], tokenizer));
  return Json{{"text", tokenizer.decode(ids, skip_special)}};
}

Result<Json> encode(const Json& request, const Tokenizer& tokenizer) {
  const Json& text = request["text"];
  if (!text.is_string())
    return fail(ErrorCode::invalid_argument, "text: expected a string, found {}", text.type_name());
  FATHOM_ASSIGN(const std::vector<int32_t> ids, tokenizer.encode(text.get_ref<const std::string&>()));
  Json tokens = Json::array();
  for (const int32_t id : ids) tokens.push_back(tokenizer.token(id));
  return Json{{"ids", ids}, {"tokens", std::move(tokens)}};
}

Status run(const std::filesystem::path& directory, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const Tokenizer tokenizer, Tokenizer::load(directory));
  return answer_json_lines(surroundings, [&](const Json& request) -> Result<Json> {
    if (request.contains("text") == request.contains("ids"))
      return fail(ErrorCode::invalid_argument, "expected either \"text\" or \"ids\"");
    return request.contains("text") ? encode(request, tokenizer) : decode(request, tokenizer);
  });
}

}  // namespace

void add_tokenize(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn texts into token ids, or ids into text");
  command->footer(
      "Reads JSON lines and writes one for each:\n"
      "  {\"text\": T}      ->  {\"ids\": [...], \"tokens\": [...]}; special text in T becomes special "
      "tokens\n"
      "  {\"ids\": [...]}   ->  {\"text\": T}; with \"skip_special_tokens\": true without special tokens\n"
      "  anything wrong   ->  {\"error\": message}");
  const auto directory = std::make_shared<std::filesystem::path>();
  command->add_option("--model", *directory, "Directory with a tokenizer.json")->required()->type_name("DIR");
  command->callback([directory, &chosen] {
    chosen = [directory](const Surroundings& surroundings) { return run(*directory, surroundings); };
  });
}

}  // namespace fathom
