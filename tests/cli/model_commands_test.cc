// generate, chat, logits, inspect and eval on the small models, through the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "tests/cli/run_fathom.h"

namespace fathom {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::string tiny = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";
const std::string demo = FATHOM_SOURCE_DIR "/models/demo";

/// A directory that goes with the test.
class Scratch {
 public:
  Scratch() {
    std::string pattern = testing::TempDir() + "fathom-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Json parsed(const std::string& text) {
  auto json = parse_json(text, "output");
  EXPECT_TRUE(json) << (json ? text : json.error().message);
  return json ? std::move(*json) : Json();
}

std::vector<std::string> generate(std::vector<std::string> more) {
  more.insert(more.begin(), {"generate", "--model", demo, "--max-tokens", "6"});
  return more;
}

TEST(Generate, AnswersAMessage) {
  const Finished run =
      run_fathom(generate({"--chat", "--thinking", "off", "--temperature", "0", "--prompt", "Help"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, StartsWith("I can answer"));
  EXPECT_THAT(run.out, EndsWith("\n"));

  // The message may also come from standard input or a file, with the line end that echo adds.
  const Scratch scratch;
  std::ofstream(scratch.file("prompt")) << "Help\n";
  auto arguments = generate({"--chat", "--thinking", "off", "--temperature", "0"});
  arguments.push_back("-");
  EXPECT_EQ(run_fathom(arguments, "Help\n").out, run.out);
  arguments.back() = "--prompt-file=" + scratch.file("prompt");
  EXPECT_EQ(run_fathom(arguments).out, run.out);
}

TEST(Generate, WritesJson) {
  const Finished run = run_fathom(
      generate({"--chat", "--thinking", "off", "--temperature", "0", "--json", "--prompt", "Help"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json out = parsed(run.out);
  EXPECT_EQ(out["finish_reason"], "length");
  EXPECT_EQ(out["ids"].size(), 6u);
  EXPECT_EQ(out["usage"]["completion_tokens"], 6);
  EXPECT_EQ(out["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(out["message"]["content"], out["text"]);
}

TEST(Generate, ReasoningStandsApart) {
  const Finished run = run_fathom({"generate", "--model", demo, "--chat", "--temperature", "0", "--prompt",
                                   "Southby is the capital of which country?"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "<think>\nI know this about Sunia.\n</think>\n\nSouthby is the capital of Sunia.\n");
}

TEST(Generate, StopsAtAStopStringAndRepeatsWithASeed) {
  const Finished stopped = run_fathom(generate(
      {"--chat", "--thinking", "off", "--temperature", "0", "--stop", "n answ", "--prompt", "Help"}));
  EXPECT_EQ(stopped.out, "I ca\n");
  const auto sampled =
      generate({"--temperature", "2", "--top-p", "1", "--prompt", "In the", "--json", "--seed"});
  const auto ids = [&](const std::string& seed) {
    auto arguments = sampled;
    arguments.push_back(seed);
    return parsed(run_fathom(arguments).out)["ids"];
  };
  EXPECT_EQ(ids("1"), ids("1"));
  EXPECT_NE(ids("1"), ids("2"));
}

TEST(Generate, AnInterruptEndsItWithWhatThereIs) {
  RunOptions options;
  options.interrupt_after = 0;
  const Finished run =
      run_fathom({"generate", "--model", tiny, "--prompt", "a", "--max-tokens", "1000000"}, options);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "fathom: interrupted\n");
  EXPECT_NE(run.out, "");
}

TEST(Generate, RefusesWhatTheModelDoesNotHave) {
  const Finished run = run_fathom(generate({"--prompt", "a", "--logit-bias", "99999999=1"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("logit_bias"));
  const Finished not_text = run_fathom(generate({"-"}), "\xff\xfe");
  EXPECT_EQ(not_text.exit_code, 1);
  EXPECT_THAT(not_text.err, HasSubstr("UTF-8"));
}

TEST(Chat, AnswersLineByLineFromAPipe) {
  const Finished run =
      run_fathom({"chat", "--model", demo, "--thinking", "off", "--temperature", "0", "--max-tokens", "12"},
                 "/help\nMy name is Kira.\n\n/new\nThank you!\n/quit\nnever reached\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr("/help"));
  EXPECT_THAT(run.out, HasSubstr("Kira"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("> ")));
}

TEST(Chat, AWrongCommandInAScriptIsAFailure) {
  const Finished run = run_fathom({"chat", "--model", tiny}, "/nonsense\n");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("/nonsense"));
}

std::string ids_text(const TensorView& ids) {
  std::string out;
  for (int64_t i = 0; i < ids.shape.elements(); ++i) {
    int32_t id = 0;
    std::memcpy(&id, ids.data + i * 4, 4);
    if (i > 0) out += ',';
    out += std::to_string(id);
  }
  return out;
}

TEST(LogitsCommand, WritesTheGoldenContinuationWhateverTheChunks) {
  const auto golden =
      SafetensorsFile::open(FATHOM_SOURCE_DIR "/tests/golden/tiny/golden/prompt_48.safetensors");
  ASSERT_TRUE(golden);
  const auto input = golden->find("input_ids");
  const auto greedy = golden->find("greedy");
  ASSERT_TRUE(input && greedy);
  const Scratch scratch;
  std::string first;  // the logits' bytes
  for (const char* chunks : {"48", "7,1,13"}) {
    const Finished run =
        run_fathom({"logits", "--model", tiny, "--ids", ids_text(*input), "--chunks", chunks, "--out",
                    scratch.file("out"), "--greedy", std::to_string(greedy->shape.elements()), "--trace"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out + run.err, "");
    const auto out = SafetensorsFile::open(scratch.file("out"));
    ASSERT_TRUE(out) << out.error().message;
    for (const char* name : {"input_ids", "logits", "greedy"})
      ASSERT_TRUE(out->find(name).has_value()) << name;
    EXPECT_EQ(out->find("logits")->shape, golden->find("logits")->shape);
    EXPECT_EQ(out->find("logits")->dtype, DType::f32);
    EXPECT_EQ(ids_text(*out->find("greedy")), ids_text(*greedy));
    EXPECT_TRUE(out->find("trace.0.out").has_value());
    const TensorView logits = *out->find("logits");
    const std::string bytes(reinterpret_cast<const char*>(logits.data), static_cast<size_t>(logits.bytes()));
    if (first.empty()) first = bytes;
    EXPECT_TRUE(first == bytes) << "chunks " << chunks;
  }
}

TEST(Inspect, ReportsASoundModel) {
  const Finished text = run_fathom({"inspect", "--model", tiny});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Nothing is missing or wrong."));
  const Finished run = run_fathom({"inspect", "--model", tiny, "--json"});
  EXPECT_EQ(run.exit_code, 0);
  const Json out = parsed(run.out);
  EXPECT_EQ(out["config"]["n_layers"], 8);
  EXPECT_EQ(out["problems"], Json::array());
  int64_t sum = 0;
  for (const auto& [name, group] : out["tensors"]["groups"].items()) sum += group["bytes"].get<int64_t>();
  EXPECT_EQ(out["tensors"]["bytes"], sum);
  EXPECT_GT(out["memory"]["sequence"][0]["bytes"], 0);
}

TEST(Inspect, SaysWhatIsMissing) {
  const Scratch scratch;
  std::filesystem::copy(tiny, scratch.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove(scratch.file("model-00002-of-00003.safetensors"));
  const Finished run = run_fathom({"inspect", "--model", scratch.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("model-00002-of-00003.safetensors"));
  EXPECT_THAT(run.err, StartsWith("fathom: "));
}

TEST(Eval, CountsAndSkips) {
  std::ifstream all(demo + "/eval.jsonl");
  const Scratch scratch;
  {
    std::ofstream some(scratch.file("eval.jsonl"));
    std::map<std::string, int> taken;
    for (std::string line; std::getline(all, line);) {
      const std::string task = parsed(line)["task"];
      if ((task == "image" || task == "talk" || task == "completion") && taken[task]++ == 0)
        some << line << "\n";
    }
  }
  const Finished run = run_fathom({"eval", "--model", demo, "--json", scratch.file("eval.jsonl")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json tasks = parsed(run.out)["tasks"];
  EXPECT_EQ(tasks["talk"]["exact"], 1);
  EXPECT_EQ(tasks["completion"]["total"], 1);
  EXPECT_EQ(tasks["image"]["skipped"], 1);
}

}  // namespace
}  // namespace fathom
