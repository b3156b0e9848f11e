// generate, chat, logits, inspect and eval on the small models, through the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "tests/cli/run_fathom.h"
#include "tests/support/checkpoint_builder.h"

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

TEST(Generate, SaysThatTheContextIsFull) {
  for (const char* memory : {"1.5G", "mapped"}) {
    const auto run = [&](const char* tokens) {
      return run_fathom({"generate", "--model", tiny, "--memory", memory, "--context", "8", "--prompt", "a",
                         "--temperature", "0", "--max-tokens", tokens});
    };
    const Finished full = run("100");
    EXPECT_EQ(full.exit_code, 0);
    EXPECT_EQ(full.err, "fathom: the answer ends because the context of 8 positions is full (--context)\n");
    EXPECT_EQ(run("2").err, "");
  }
}

TEST(Generate, SaysThatTheModelHasLessContext) {
  for (const char* memory : {"1.5G", "mapped"}) {
    const Finished run = run_fathom({"generate", "--model", tiny, "--memory", memory, "--context", "1024M",
                                     "--prompt", "a", "--max-tokens", "1"});
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_THAT(run.err, HasSubstr("fathom: --context 1073741824 is more than the model has: "));
  }
}

TEST(Chat, SaysWhatToDoWhenTheContextIsFull) {
  const Finished run =
      run_fathom({"chat", "--model", tiny, "--context", "8"}, "A message that takes more than that.\n");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              HasSubstr("the context has 8: /new begins another conversation, --context makes room"));
}

TEST(Generate, RefusesWhatTheModelDoesNotHave) {
  const Finished run = run_fathom(generate({"--prompt", "a", "--logit-bias", "99999999=1"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("logit_bias"));
  const Finished not_text = run_fathom(generate({"-"}), "\xff\xfe");
  EXPECT_EQ(not_text.exit_code, 1);
  EXPECT_THAT(not_text.err, HasSubstr("UTF-8"));
}

TEST(Generate, SeesImages) {
  const std::vector<std::string> question = {"generate", "--model",       demo, "--chat", "--thinking",
                                             "off",      "--temperature", "0",  "--json", "--prompt"};
  const auto ask = [&](const std::string& text, const std::vector<std::string>& images) {
    std::vector<std::string> arguments = question;
    arguments.push_back(text);
    for (const std::string& image : images) {
      arguments.emplace_back("--image");
      arguments.push_back(image);
    }
    return run_fathom(arguments);
  };
  const Json out = parsed(ask("What shape is in the picture?", {demo + "/images/eval_007.png"}).out);
  EXPECT_THAT(out["text"].get<std::string>(), HasSubstr("The shape is a circle."));
  ASSERT_EQ(out["images"].size(), 1u);
  EXPECT_EQ(out["images"][0]["first_position"], 2);
  EXPECT_EQ(out["images"][0]["identity"].get<std::string>().size(), 64u);
  EXPECT_GT(out["usage"]["prompt_tokens"], out["images"][0]["tokens"]);
  // Any number of them, of kinds that it was not trained on.
  const Finished odd =
      ask("What do you see?", {FATHOM_SOURCE_DIR "/tests/golden/images/gray_64x64.jpg",
                               FATHOM_SOURCE_DIR "/tests/golden/images/still_40x40.gif",
                               FATHOM_SOURCE_DIR "/tests/golden/images/lossless_90x90.webp"});
  EXPECT_EQ(odd.exit_code, 0) << odd.err;
  EXPECT_EQ(parsed(odd.out)["images"].size(), 3u);

  // Messages show no control characters of names.
  const Finished named = ask("What do you see?", {"/nowhere\x1b[2J.png"});
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_THAT(named.err, testing::Not(HasSubstr("\x1b")));

  const Finished no_image = ask("What do you see?", {demo + "/config.json"});
  EXPECT_EQ(no_image.exit_code, 1);
  EXPECT_THAT(no_image.err, HasSubstr("config.json"));
}

TEST(Generate, ATextGivesImagesTheirPlaces) {
  const std::string placeholder = "<｜deepseek_image｜>";
  const std::string image = demo + "/images/eval_017.png";
  const auto positions = [&](const std::string& text) {
    const Finished run =
        run_fathom(generate({"--json", "--prompt", text, "--image", image, "--image", image}));
    std::vector<int> out;
    if (run.exit_code != 0) return out;
    const Json json = parsed(run.out);
    for (const Json& placed : json["images"]) out.push_back(placed["first_position"]);
    return out;
  };
  const auto front = positions("Help");
  ASSERT_EQ(front.size(), 2u);
  EXPECT_EQ(front[0], 1);
  const auto within = positions("Help " + placeholder + " me " + placeholder);
  ASSERT_EQ(within.size(), 2u);
  EXPECT_GT(within[0], 1);
  EXPECT_GT(within[1], front[1]);
  EXPECT_TRUE(positions("Help " + placeholder).empty());
  EXPECT_THAT(run_fathom(generate({"--prompt", placeholder})).err,
              HasSubstr("expected as many images as the prompt has places for them (1), found 0"));
}

TEST(Generate, DraftingChangesNothingButThePasses) {
  const auto answer = [&](const std::string& draft, const std::string& temperature) {
    return parsed(
        run_fathom({"generate", "--model", demo, "--chat", "--thinking", "off", "--json", "--seed", "7",
                    "--temperature", temperature, "--draft", draft, "--max-tokens", "24", "--prompt", "Help"})
            .out);
  };
  for (const char* temperature : {"0", "1.5"}) {
    const Json without = answer("off", temperature);
    EXPECT_EQ(without["draft"]["enabled"], false);
    for (const char* draft : {"on", "1", "5", "8"}) {
      const Json with = answer(draft, temperature);
      EXPECT_EQ(with["ids"], without["ids"]) << draft;
      EXPECT_EQ(with["draft"]["enabled"], true);
      EXPECT_DOUBLE_EQ(with["draft"]["passes_per_token"].get<double>(),
                       1 / (1 + with["draft"]["mean_accepted"].get<double>()));
    }
  }
}

// A copy of the tiny model with changed tensors, and what it answers with the default flags.
Finished answer_of_changed(const std::function<void(test::CheckpointBuilder&)>& change) {
  const Scratch scratch;
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(tiny + "/" + file, scratch.path() / file);
  test::CheckpointBuilder builder{std::filesystem::path(tiny)};
  change(builder);
  builder.write(scratch.path());
  return run_fathom({"generate", "--model", scratch.path(), "--temperature", "0", "--json", "--max-tokens",
                     "6", "--prompt", "a b"});
}

TEST(Generate, RunsWithoutDraftsWhereTheStagesAreMissingOrDamaged) {
  const Json whole = parsed(answer_of_changed([](test::CheckpointBuilder&) {}).out);
  EXPECT_EQ(whole["draft"]["enabled"], true);
  const auto expect_plain = [&](const Finished& run, const std::string& why) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, StartsWith("fathom: running without drafts: "));
    EXPECT_THAT(run.err, HasSubstr(why));
    const Json out = parsed(run.out);
    EXPECT_EQ(out["ids"], whole["ids"]);
    EXPECT_EQ(out["draft"]["enabled"], false);
    EXPECT_THAT(out["draft"]["reason"].get<std::string>(), HasSubstr(why));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
  };
  expect_plain(answer_of_changed([](test::CheckpointBuilder& builder) {
                 std::erase_if(builder.tensors, [](const auto& t) { return t.name.starts_with("mtp."); });
               }),
               "missing tensor mtp.0.");
  expect_plain(answer_of_changed([](test::CheckpointBuilder& builder) {
                 std::swap(builder.at("mtp.0.main_proj.weight").shape[0],
                           builder.at("mtp.0.main_proj.weight").shape[1]);
               }),
               "mtp.0.main_proj.weight");

  // Damage that is only found when it is used ends the drafts, not the answer.
  for (const char* tensor : {"mtp.0.ffn.experts.%.w1.scale", "mtp.0.ffn_norm.weight", "mtp.1.norm.weight",
                             "mtp.1.confidence_head.proj.weight"}) {
    const Finished run = answer_of_changed([&](test::CheckpointBuilder& builder) {
      for (auto& t : builder.tensors) {
        const std::string name = std::regex_replace(t.name, std::regex("experts\\.[0-9]+"), "experts.%");
        if (name == tensor) t.bytes.assign(t.bytes.size(), '\xFF');
      }
    });
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, StartsWith("fathom: went on without drafts: ")) << tensor;
    const Json out = parsed(run.out);
    EXPECT_EQ(out["ids"], whole["ids"]) << tensor;
    EXPECT_EQ(out["draft"]["accepted"], 0);
    EXPECT_NE(out["draft"]["problem"], nullptr);
  }
}

// The next file that is opened must not take its place: here it would be one of the checkpoint's.
TEST(Chat, WithoutStandardInput) {
  RunOptions options;
  options.without_stdin = true;
  for (const char* memory : {"256M", "mapped"}) {
    const Finished run = run_fathom({"chat", "--model", tiny, "--memory", memory}, options);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(run.err, "fathom: standard input: Bad file descriptor\n");
  }
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

TEST(Chat, ShowsImages) {
  const Finished run = run_fathom({"chat", "--model", demo, "--thinking", "off", "--temperature", "0"},
                                  "/image " + demo +
                                      "/images/eval_007.png\nWhat shape is in the picture?\n"
                                      "/new\n/image " +
                                      demo + "/images/eval_017.png\nWhat do you see?\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "The shape is a circle.\nThe picture shows an orange square on a black background.\n");
  const Finished missing = run_fathom({"chat", "--model", demo}, "/image /nowhere.png\nHelp\n");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere.png"));
  // Taken back, it is not seen: the answer is that of the question alone.
  const std::vector<std::string> chat = {"chat", "--model", demo, "--thinking", "off", "--temperature", "0"};
  const std::string image = "/image " + demo + "/images/eval_007.png\n";
  const std::string alone = run_fathom(chat, "What shape is in the picture?\n").out;
  EXPECT_EQ(run_fathom(chat, image + "/image\nWhat shape is in the picture?\n").out, alone);
  for (const char* command : {"/new", "/clear"})
    EXPECT_EQ(run_fathom(chat, image + command + "\nWhat shape is in the picture?\n").out, alone);
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
  for (const std::string path : {"exact", "fast"}) {
    std::string first;  // the logits' bytes
    for (const char* chunks : {"48", "7,1,13"}) {
      std::vector<std::string> args = {"logits",
                                       "--model",
                                       tiny,
                                       "--ids",
                                       ids_text(*input),
                                       "--chunks",
                                       chunks,
                                       "--out",
                                       scratch.file("out"),
                                       "--greedy",
                                       std::to_string(greedy->shape.elements()),
                                       "--trace"};
      if (path == "exact") args.push_back("--exact");
      const Finished run = run_fathom(args);
      ASSERT_EQ(run.exit_code, 0) << run.err;
      EXPECT_EQ(run.out + run.err, "");
      const auto out = SafetensorsFile::open(scratch.file("out"));
      ASSERT_TRUE(out) << out.error().message;
      for (const char* name : {"input_ids", "logits", "greedy"})
        ASSERT_TRUE(out->find(name).has_value()) << name;
      EXPECT_EQ(out->find("logits")->shape, golden->find("logits")->shape);
      EXPECT_EQ(out->find("logits")->dtype, DType::f32);
      if (path == "exact") {
        EXPECT_EQ(ids_text(*out->find("greedy")), ids_text(*greedy));
      }
      EXPECT_TRUE(out->find("trace.0.out").has_value());
      const TensorView logits = *out->find("logits");
      const std::string bytes(reinterpret_cast<const char*>(logits.data),
                              static_cast<size_t>(logits.bytes()));
      if (first.empty()) first = bytes;
      EXPECT_TRUE(first == bytes) << path << ", chunks " << chunks;
    }
  }
}

TEST(Inspect, TakesMappedMemory) {
  const Finished run = run_fathom({"inspect", "--model", tiny, "--memory", "mapped", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(parsed(run.out)["memory"].contains("with_budget"));
}

TEST(Eval, AnErrorNamesTheLineAndKeepsTheTable) {
  const Scratch scratch;
  std::ofstream(scratch.file("eval.jsonl"))
      << R"({"task": "a\u001b[31m", "prompt": "Help", "expected": "x"})"
      << "\n"
      << R"({"task": "b", "prompt": "Help", "expected": "x", "image": "no.png"})"
      << "\n";
  const Finished run = run_fathom({"eval", "--model", demo, "--json", scratch.file("eval.jsonl")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("eval.jsonl, line 2: "));
  EXPECT_THAT(run.err, HasSubstr("no.png"));
  EXPECT_EQ(parsed(run.out)["tasks"].size(), 1u);
  std::ofstream(scratch.file("eval.jsonl"))
      << R"({"task": "b", "prompt": "Help", "expected": "x", "image": "a\u0000b"})"
      << "\n";
  EXPECT_THAT(run_fathom({"eval", "--model", demo, scratch.file("eval.jsonl")}).err,
              HasSubstr("line 1: image: expected a file's name"));
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

// 8 layers of 3 experts, and 6 columns in 2 tables with two blocks a row.
TEST(Inspect, ForeseesBytesAndTokensFromBandwidths) {
  const Finished run = run_fathom({"inspect", "--model", tiny, "--json", "--memory", "1.5G",
                                   "--disk-bandwidth", "2", "--memory-bandwidth", "1000"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json memory = parsed(run.out)["memory"]["with_budget"];
  EXPECT_EQ(memory["disk_bandwidth"], 2e9);
  EXPECT_EQ(memory["experts_in_memory"], memory["experts"]);
  const double rows = 6 * 2 * 2 * 4096;
  const double experts = 8 * 3 * memory["expert_bytes"].get<double>();
  EXPECT_EQ(memory["disk_bytes_per_token"]["nothing_cached"], experts + rows);
  // Draft stages have their place in memory, but are not read for a token without drafts.
  EXPECT_LT(memory["memory_bytes_per_token"].get<double>(), memory["dense_bytes"].get<double>() + experts);
  EXPECT_EQ(memory["disk_bytes_per_token"]["uniform"], rows);  // every expert fits
  EXPECT_DOUBLE_EQ(memory["tokens_per_second"]["nothing_cached"], 2e9 / (experts + rows));
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

TEST(Eval, CountsAnswersAndDrafts) {
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
    std::filesystem::create_directory_symlink(demo + "/images", scratch.path() / "images");
  }
  const Finished run = run_fathom({"eval", "--model", demo, "--json", scratch.file("eval.jsonl")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json tasks = parsed(run.out)["tasks"];
  EXPECT_EQ(tasks["talk"]["exact"], 1);
  EXPECT_EQ(tasks["completion"]["total"], 1);
  EXPECT_EQ(tasks["image"]["exact"], 1);
  EXPECT_GT(tasks["talk"]["draft"]["accepted"], 0);
}

}  // namespace
}  // namespace fathom
