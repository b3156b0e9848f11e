// A model in less memory than it takes gives the same bits as one in mapped files, and reads no more than it
// must.
#include "model/memory_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/tiny_model.h"

namespace fathom {
namespace {

using ::fathom::testing::random_ids;
using ::fathom::testing::TinyModel;
using test::TempDir;
using ::testing::HasSubstr;

constexpr int64_t max_rows = 16;
constexpr int64_t plenty = int64_t{1} << 34;

MemoryOptions options(int64_t max_slots = 0) {
  MemoryOptions o;
  o.budget = plenty;
  o.max_rows = max_rows;
  o.max_slots = max_slots;
  return o;
}

// A model, and one sequence of it.
class Runner {
 public:
  explicit Runner(const std::optional<MemoryOptions>& memory,
                  const std::filesystem::path& directory = FATHOM_RANDOM_MODEL, int64_t context = 0)
      : ops_(make_exact_cpu_ops(2)),
        model_(TinyModel::take(Model::load(directory, *ops_, memory, context))),
        workspace_(TinyModel::take(model_->new_workspace(max_rows))),
        sequence_(TinyModel::take(model_->new_sequence(memory && memory->drafting))) {}

  const Model& model() const { return *model_; }
  Sequence& sequence() { return sequence_; }
  Workspace& workspace() { return workspace_; }
  MemoryCounters counters() const { return model_->memory()->counters(); }

  Result<Logits> forward(std::span<const int32_t> ids) {
    const SequenceRows rows{&sequence_, ids, static_cast<int64_t>(ids.size())};
    return model_->forward(workspace_, {&rows, 1});
  }

  /// Logits of a prompt in chunks, then of single tokens.
  std::vector<float> logits(int64_t prompt, int64_t steps) {
    const std::vector<int32_t> ids = random_ids(3, prompt + steps);
    std::vector<float> all =
        TinyModel::take(forward(std::span(ids).first(static_cast<size_t>(prompt)))).values;
    for (int64_t i = 0; i < steps; ++i) {
      const Logits one = TinyModel::take(forward(std::span(ids).subspan(static_cast<size_t>(prompt + i), 1)));
      all.insert(all.end(), one.values.begin(), one.values.end());
    }
    return all;
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  Workspace workspace_;
  Sequence sequence_;
};

const std::vector<float>& mapped_logits() {
  static const std::vector<float> logits = Runner(std::nullopt).logits(40, 6);
  return logits;
}

TEST(MemoryTiers, EverySizeOfCacheGivesTheSameBits) {
  for (const int64_t slots : {int64_t{1}, int64_t{8}, int64_t{100}, int64_t{0}}) {
    Runner run(options(slots));
    EXPECT_EQ(run.model().memory()->plan().num_slots, slots > 0 ? slots : 8 * 90);
    EXPECT_EQ(run.logits(40, 6), mapped_logits()) << slots;
  }
}

TEST(MemoryTiers, EveryWayToReadGivesTheSameBits) {
  for (const auto engine : {AsyncReader::Engine::automatic, AsyncReader::Engine::threads})
    for (const auto mode : {DirectFile::Mode::direct, DirectFile::Mode::buffered}) {
      MemoryOptions o = options(20);
      o.engine = engine;
      o.mode = mode;
      EXPECT_EQ(Runner(o).logits(40, 6), mapped_logits());
    }
}

TEST(MemoryTiers, TheGoldenModelGivesTheSameBits) {
  const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";
  const std::vector<float> mapped = Runner(std::nullopt, tiny).logits(50, 5);
  for (const int64_t slots : {int64_t{4}, int64_t{30}, int64_t{0}})
    EXPECT_EQ(Runner(options(slots), tiny).logits(50, 5), mapped) << slots;
}

// The experts that a pass chooses, from its trace: one set for each layer.
std::vector<std::set<int32_t>> chosen_experts(const std::vector<int32_t>& ids) {
  Runner run(std::nullopt);
  TraceRecorder trace;
  const SequenceRows rows{&run.sequence(), ids, 1};
  TinyModel::take(run.model().forward(run.workspace(), {&rows, 1}, &trace));
  std::vector<std::set<int32_t>> chosen;
  for (int64_t l = 0; l < run.model().config().n_layers; ++l) {
    const TensorView view = trace.tensors().at(fmt::format("layers.{}.ffn.experts", l)).view("");
    const auto* experts = reinterpret_cast<const int32_t*>(view.data);
    chosen.emplace_back(experts, experts + view.shape.elements());
  }
  return chosen;
}

TEST(MemoryTiers, ReadsEachChosenExpertOnceWhenAllFit) {
  const std::vector<int32_t> ids = random_ids(5, max_rows);
  int64_t chosen = 0;
  for (const std::set<int32_t>& layer : chosen_experts(ids)) chosen += static_cast<int64_t>(layer.size());
  Runner run(options());
  EXPECT_EQ(run.counters().experts.bytes_read, 0);  // nothing at load
  TinyModel::take(run.forward(ids));
  const ExpertCounters first = run.counters().experts;
  EXPECT_EQ(first.misses, chosen);
  EXPECT_EQ(first.hits, 0);
  EXPECT_EQ(first.prefetched, 0);
  EXPECT_LE(first.bytes_read, chosen * run.model().memory()->needs().slot);
  // The same tokens in a new sequence choose the same experts, which are all there.
  Sequence second = TinyModel::take(run.model().new_sequence());
  const SequenceRows rows{&second, ids, 1};
  TinyModel::take(run.model().forward(run.workspace(), {&rows, 1}));
  EXPECT_EQ(run.counters().experts.misses, chosen);
  EXPECT_EQ(run.counters().experts.hits, chosen);
  EXPECT_EQ(run.counters().experts.bytes_read, first.bytes_read);
}

TEST(MemoryTiers, ReadsWhatItCountsAndNoMore) {
  Runner run(options(40));
  run.logits(40, 20);
  const MemoryCounters c = run.counters();
  const int64_t slot = run.model().memory()->needs().slot;
  EXPECT_GT(c.experts.misses, 0);
  // An expert takes up at most one block more on the disk than another, where its ends cross blocks.
  EXPECT_LE(c.experts.bytes_read, (c.experts.misses + c.experts.prefetched) * slot);
  EXPECT_GE(c.experts.bytes_read, (c.experts.misses + c.experts.prefetched) * (slot - 4096));
  EXPECT_GT(c.engram.misses, 0);
  EXPECT_LE(c.engram.bytes_read, c.engram.misses * 4 * 4096);
}

TEST(MemoryTiers, RowsOfATableAreReadOnce) {
  const std::vector<int32_t> ids = random_ids(5, max_rows);
  Runner run(options());
  TinyModel::take(run.forward(ids));
  const EngramCounters first = run.counters().engram;
  EXPECT_EQ(first.hits, 0);
  EXPECT_GT(first.misses, 0);
  Sequence second = TinyModel::take(run.model().new_sequence());
  const SequenceRows rows{&second, ids, 1};
  TinyModel::take(run.model().forward(run.workspace(), {&rows, 1}));
  EXPECT_EQ(run.counters().engram.misses, first.misses);
  EXPECT_EQ(run.counters().engram.hits, first.misses);
  EXPECT_EQ(run.counters().engram.bytes_read, first.bytes_read);
}

TEST(MemoryTiers, DraftsAreTheSame) {
  const std::vector<int32_t> ids = random_ids(9, 30);
  const auto drafts = [&](bool tiers) {
    MemoryOptions o = options(12);
    o.drafting = true;
    std::unique_ptr<Ops> ops = make_exact_cpu_ops(2);
    const auto model =
        TinyModel::take(Model::load(FATHOM_RANDOM_MODEL, *ops, tiers ? std::optional(o) : std::nullopt));
    Workspace workspace = TinyModel::take(model->new_workspace(max_rows));
    Sequence sequence = TinyModel::take(model->new_sequence(true));
    const SequenceRows rows{&sequence, ids, 1};
    TinyModel::take(model->forward(workspace, {&rows, 1}));
    const DraftRequest request{&sequence, 17};
    DraftBlock block = TinyModel::take(model->begin_draft(workspace, {&request, 1}, 3));
    return TinyModel::take(model->next_draft(block, std::vector<int32_t>{17})).logits;
  };
  EXPECT_EQ(drafts(true), drafts(false));
}

TEST(MemoryTiers, SeveralThreadsShareOneCache) {
  const ModelConfig config = TinyModel::take(load_config(FATHOM_RANDOM_MODEL));
  const Checkpoint checkpoint = TinyModel::take(Checkpoint::open(FATHOM_RANDOM_MODEL));
  TensorTable tensors = TinyModel::take(TensorTable::bind(checkpoint, config));
  const auto tiers = TinyModel::take(MemoryTiers::open(config, checkpoint, tensors, options(10)));
  ASSERT_TRUE(tiers->fill(tensors));
  ExpertCache& cache = tiers->experts();
  std::vector<std::thread> threads;
  std::atomic<int64_t> given{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::unique_ptr<ExpertSource> source = cache.source(t % 2);
      for (int round = 0; round < 30; ++round) {
        std::vector<int32_t> experts;
        for (int32_t e = 0; e < 8; ++e) experts.push_back(e * 10 + (round + t) % 10);
        const auto lease = source->take(experts);
        for (;;) {
          const auto batch = lease->next();
          ASSERT_TRUE(batch) << batch.error().message;
          if (batch->empty()) break;
          given += static_cast<int64_t>(batch->size());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(given, 4 * 30 * 8);
}

// What is refused, and that the number in the refusal is right.
TEST(MemoryTiers, ATooSmallBudgetIsRefusedWithTheSmallestThatWorks) {
  const auto ops = make_exact_cpu_ops(1);
  MemoryOptions o = options();
  o.budget = 1 << 20;
  const auto refused = Model::load(FATHOM_RANDOM_MODEL, *ops, o);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  const std::string& message = refused.error().message;
  EXPECT_THAT(message,
              HasSubstr("1.0 MiB of memory is too little for this model: the smallest that works is "));
  EXPECT_THAT(message, HasSubstr("8 experts of 56.0 KiB"));
  const std::string before = "works is ";
  const int64_t smallest = std::stoll(message.substr(message.find(before) + before.size())) << 20;
  // The process has grown a little since; much more under the sanitizers.
  o.budget = smallest + (64 << 20);
  const auto model = Model::load(FATHOM_RANDOM_MODEL, *ops, o);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE((*model)->memory()->plan().bytes(), o.budget);
  o.budget = smallest - (64 << 20);  // what is told leaves room for runs that differ
  EXPECT_FALSE(Model::load(FATHOM_RANDOM_MODEL, *ops, o));
}

// A thread works in memory of its own.
TEST(MemoryTiers, PlansForThreads) {
  MemoryOptions o = options();
  const int64_t one = Runner(o).model().memory()->needs().workspace;
  o.threads = 101;
  const int64_t many = Runner(o).model().memory()->needs().workspace;
  EXPECT_GE(many - one, int64_t{100} << 19);
}

TEST(MemoryTiers, KeepsToTheContextThatWasPlanned) {
  const int64_t full = Runner(options()).model().memory()->needs().sequence;
  Runner run(options(), FATHOM_RANDOM_MODEL, 10);
  EXPECT_LT(run.model().memory()->needs().sequence, full);
  EXPECT_EQ(run.model().config().max_seq_len, 10);
  const auto logits = run.forward(random_ids(1, 11));
  ASSERT_FALSE(logits);
  EXPECT_THAT(logits.error().message, HasSubstr("at most the model's context of 10"));
}

TEST(MemoryTiers, LoadingCanBeInterrupted) {
  const auto ops = make_exact_cpu_ops(1);
  MemoryOptions o = options();
  int64_t reported = 0;
  o.hooks.progress = [&](int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    reported = done;
  };
  ASSERT_TRUE(Model::load(FATHOM_RANDOM_MODEL, *ops, o));
  EXPECT_GT(reported, 0);
  o.hooks.cancelled = [] { return true; };
  const auto model = Model::load(FATHOM_RANDOM_MODEL, *ops, o);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::cancelled);
}

// Experts of the last layers are cut off while the model runs.
TEST(MemoryTiers, AShardCutShortWhileRunningIsAnError) {
  for (const auto engine : {AsyncReader::Engine::automatic, AsyncReader::Engine::threads}) {
    const TempDir dir;
    std::filesystem::copy(FATHOM_RANDOM_MODEL, dir.path());
    MemoryOptions o = options(20);
    o.engine = engine;
    Runner run(o, dir.path());
    const std::filesystem::path shard = dir / "model-00001-of-00001.safetensors";
    std::filesystem::resize_file(shard, std::filesystem::file_size(shard) / 2);
    const auto logits = run.forward(random_ids(1, 5));
    ASSERT_FALSE(logits);
    EXPECT_EQ(logits.error().code, ErrorCode::io);
    EXPECT_THAT(logits.error().message, HasSubstr(shard.string()));
    EXPECT_TRUE(run.sequence().poisoned());
  }
}

TEST(MemoryTiers, AShardCutShortBeforeItsRowsAreReadIsAnError) {
  const TempDir dir;
  std::filesystem::copy(FATHOM_RANDOM_MODEL, dir.path());
  Runner run(options(20), dir.path());
  const std::filesystem::path shard = dir / "model-00001-of-00001.safetensors";
  const Checkpoint::Place table = *run.model().checkpoint().place_of("layers.1.engram.embed.weight");
  std::filesystem::resize_file(shard, table.offset + 4096);
  const auto logits = run.forward(random_ids(1, 5));
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().code, ErrorCode::io);
  EXPECT_THAT(logits.error().message, HasSubstr(shard.string()));
}

TEST(MemoryTiers, AShardCutShortBeforeLoadingIsAnError) {
  const TempDir dir;
  std::filesystem::copy(FATHOM_RANDOM_MODEL, dir.path());
  const auto ops = make_exact_cpu_ops(1);
  MemoryOptions o = options();
  const std::filesystem::path shard = dir / "model-00001-of-00001.safetensors";
  bool cut = false;
  o.hooks.progress = [&](int64_t, int64_t) {
    if (!std::exchange(cut, true)) std::filesystem::resize_file(shard, 1 << 20);
  };
  const auto model = Model::load(dir.path(), *ops, o);
  if (model) GTEST_SKIP() << "everything had been read by then";
  EXPECT_THAT(model.error().message, HasSubstr(shard.string()));
}

}  // namespace
}  // namespace fathom
