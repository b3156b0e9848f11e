// The expert layer (spec 1, MoE): all experts that are in memory at once, in two rounds over their weights.
#include <atomic>
#include <vector>

#include "backend/cpu/expert_uses.h"
#include "backend/cpu/kernels.h"
#include "backend/fast/operations.h"
#include "backend/fast/product.h"

namespace fathom::fast {
namespace {

using cpu::elements;
using cpu::ExpertUse;

// The rows that one expert works on, and where their results go.
struct Job {
  const ExpertWeights* weights = nullptr;
  std::vector<int64_t> rows;       // of the layer's input
  std::vector<int64_t> slots;      // of the results
  std::vector<float> row_weights;  // empty: all ones
  int64_t first_hidden = 0;        // of its rows among the round's hidden ones
  ArrangedRows input, hidden;

  int64_t count() const { return static_cast<int64_t>(rows.size()); }
};

// A range of one job's outputs.
struct Task {
  const Job* job;
  int64_t first;
  int64_t count;
};

// Outputs come in whole FP8 blocks, since what follows w1 and w3 is quantized. Long streams of weights for
// few rows, but a few of them for every worker.
int64_t task_outs(const Context& context, const StoredMatrix& weight, int64_t rows, int64_t all_outs) {
  constexpr int64_t block = fp8_weight_block.cols;
  if (rows > few_rows) return (outs_per_task(context, weight, all_outs, rows) + block - 1) / block * block;
  const int64_t share =
      std::min(all_outs / (8 * context.pool.num_threads()), stream_bytes / weight.code_stride);
  return std::max(block, share / block * block);
}

std::vector<Task> tasks_of(const Context& context, const std::vector<Job>& jobs,
                           Weight ExpertWeights::*weight) {
  std::vector<Task> tasks;
  const int64_t outs = (jobs.front().weights->*weight).out();
  for (const Job& job : jobs) {
    const int64_t most = task_outs(context, stored_matrix(job.weights->*weight), job.count(),
                                   outs * static_cast<int64_t>(jobs.size()));
    for (int64_t first = 0; first < outs; first += most)
      tasks.push_back({&job, first, std::min(most, outs - first)});
  }
  return tasks;
}

class ExpertRound {
 public:
  /// `grid`: the layer's input on the FP8 grid, bf16 [rows, dim]; results go to bf16 [slots, dim].
  ExpertRound(const Context& context, const ExpertLayerParams& p, const bf16* grid, bf16* results)
      : context_(context),
        limit_(static_cast<float>(p.swiglu_limit)),
        dim_(p.x.shape[1]),
        inter_(p.shared->w1.out()),
        grid_(grid),
        results_(results) {}

  Status run(std::vector<Job>& jobs) {
    int64_t rows = 0;
    for (Job& job : jobs) {
      job.first_hidden = rows;
      rows += job.count();
    }
    hidden_ = context_.scratch.take<bf16>(Scratch::hidden, rows * inter_);
    arrange(jobs, &ExpertWeights::w1, Scratch::input, &Job::input, true,
            [&](const Job& job, int64_t r) { return grid_ + job.rows[static_cast<size_t>(r)] * dim_; });
    FATHOM_TRY(each(tasks_of(context_, jobs, &ExpertWeights::w1),
                    [&](const Task& t, int worker) { return gate_and_up(t, worker); }));
    arrange(jobs, &ExpertWeights::w2, Scratch::arranged_hidden, &Job::hidden, false,
            [&](const Job& job, int64_t r) { return hidden_ + (job.first_hidden + r) * inter_; });
    return each(tasks_of(context_, jobs, &ExpertWeights::w2),
                [&](const Task& t, int worker) { return down(t, worker); });
  }

 private:
  // The bodies return the weight that has a NaN scale, or null.
  template <class Body>
  Status each(const std::vector<Task>& tasks, const Body& body) {
    std::atomic<const Weight*> bad{nullptr};
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        if (const Weight* weight = body(tasks[static_cast<size_t>(i)], worker)) bad = weight;
    };
    context_.pool.parallel_for_workers(static_cast<int64_t>(tasks.size()), 1, range);
    if (bad != nullptr) return cpu::nan_scale(*bad);
    return {};
  }

  // Arranges all jobs' rows, row_of(job, row), for one of their weights. `of_layer`: they are rows of the
  // layer's input; jobs with the same ones, and weights of the same format, share what is arranged.
  template <class RowOf>
  void arrange(std::vector<Job>& jobs, Weight ExpertWeights::*weight, Scratch::Slot slot,
               ArrangedRows Job::*to, bool of_layer, const RowOf& row_of) {
    struct Block {
      const Job* job;
      int64_t number;
    };
    const int64_t in = (jobs.front().weights->*weight).in();
    const int64_t values = context_.linear.block_values(in);
    const auto format = [&](const Job& job) { return stored_matrix(job.weights->*weight).format; };
    std::vector<Block> blocks;
    std::vector<size_t> same(jobs.size());  // the job whose arranged rows a job uses
    std::vector<int64_t> first(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      same[i] = i;
      for (size_t j = 0; j < i && of_layer; ++j)
        if (same[j] == j && jobs[j].rows == jobs[i].rows && format(jobs[j]) == format(jobs[i])) same[i] = j;
      if (same[i] != i) continue;
      first[i] = static_cast<int64_t>(blocks.size());
      for (int64_t b = 0; b < num_blocks(context_, jobs[i].count()); ++b) blocks.push_back({&jobs[i], b});
    }
    const auto count = static_cast<int64_t>(blocks.size());
    auto* out = context_.scratch.take<uint16_t>(slot, count * values);
    for (size_t i = 0; i < jobs.size(); ++i)
      jobs[i].*to = {out + first[same[i]] * values, values, jobs[i].count()};
    const int64_t grain = std::max<int64_t>(1, near_rows_per_item(in) / context_.linear.row_block);
    context_.pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto& [job, number] = blocks[static_cast<size_t>(i)];
        arrange_block(
            context_, format(*job), number, job->count(), in,
            [&, j = job](int64_t r) { return row_of(*j, r); }, out + i * values);
      }
    });
  }

  const Weight* gate_and_up(const Task& t, int worker) const {
    const Job& job = *t.job;
    Scratch& scratch = context_.worker[static_cast<size_t>(worker)];
    auto* gate = scratch.take<bf16>(Scratch::gate, job.count() * t.count);
    auto* up = scratch.take<bf16>(Scratch::up, job.count() * t.count);
    if (!multiply(job.weights->w1, t, job.input, worker, gate)) return &job.weights->w1;
    if (!multiply(job.weights->w3, t, job.input, worker, up)) return &job.weights->w3;
    for (int64_t r = 0; r < job.count(); ++r)
      context_.rows.swiglu(gate + r * t.count, up + r * t.count, t.count, limit_,
                           job.row_weights.empty() ? 1.0f : job.row_weights[static_cast<size_t>(r)],
                           hidden_ + (job.first_hidden + r) * inter_ + t.first);
    return nullptr;
  }

  const Weight* down(const Task& t, int worker) const {
    const Job& job = *t.job;
    Scratch& scratch = context_.worker[static_cast<size_t>(worker)];
    auto* out = scratch.take<bf16>(Scratch::gate, job.count() * t.count);
    if (!multiply(job.weights->w2, t, job.hidden, worker, out)) return &job.weights->w2;
    for (int64_t r = 0; r < job.count(); ++r)
      std::copy_n(out + r * t.count, t.count, results_ + job.slots[static_cast<size_t>(r)] * dim_ + t.first);
    return nullptr;
  }

  // out: [rows, t.count], rounded. False when a scale was NaN.
  bool multiply(const Weight& weight, const Task& t, const ArrangedRows& x, int worker, bf16* out) const {
    const StoredMatrix m = stored_matrix(weight);
    const ProductMemory memory = product_memory(context_, worker, m.in, x.rows, t.count);
    const bool numbers = context_.linear.multiply(m, t.first, t.count, x, memory.sums, t.count, memory.panel);
    context_.rows.round_row(memory.sums, x.rows * t.count, out);
    return numbers;
  }

  const Context& context_;
  float limit_;
  int64_t dim_;
  int64_t inter_;
  const bf16* grid_;
  bf16* results_;
  bf16* hidden_ = nullptr;  // [rows of the round, inter]
};

Job shared_job(const ExpertLayerParams& p, int64_t first_slot) {
  Job job;
  job.weights = p.shared;
  for (int64_t r = 0; r < p.x.shape[0]; ++r) {
    job.rows.push_back(r);
    job.slots.push_back(first_slot + r);
  }
  return job;
}

Job routed_job(const LoadedExpert& e, const std::vector<ExpertUse>& uses) {
  Job job;
  job.weights = e.weights;
  for (const ExpertUse& use : uses) {
    job.rows.push_back(use.row);
    job.slots.push_back(use.slot);
    job.row_weights.push_back(use.weight);
  }
  return job;
}

// results: bf16 by slot, then the shared expert's by row. Added in ascending order of experts, the shared one
// last.
void sum_results(const Context& context, const ExpertLayerParams& p, const bf16* results) {
  const int64_t dim = p.x.shape[1];
  const int64_t shared = p.x.shape[0] * p.experts.shape[1];
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.x.shape[0], rows_per_item(dim), [&](int64_t begin, int64_t end) {
    std::vector<const bf16*> rows;
    for (int64_t r = begin; r < end; ++r) {
      rows.clear();
      for (int64_t slot : cpu::ascending_slots(p, r)) rows.push_back(results + slot * dim);
      rows.push_back(results + (shared + r) * dim);
      context.rows.sum_rows(rows.data(), static_cast<int64_t>(rows.size()), dim, out + r * dim);
    }
  });
}

}  // namespace

Status expert_layer(const Context& context, const ExpertLayerParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  if (rows == 0) return {};
  const cpu::ExpertUses uses(p);
  const std::unique_ptr<ExpertLease> lease = p.routed->take(uses.experts);

  const int64_t slots = rows * p.experts.shape[1];
  auto* results = context.scratch.take<bf16>(Scratch::result, (slots + rows) * dim);
  auto* grid = context.scratch.take<bf16>(Scratch::grid, rows * dim);
  const bf16* x = elements<bf16>(p.x);
  context.pool.parallel_for(rows, rows_per_item(dim), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) context.rows.fp8_grid(x + r * dim, dim, grid + r * dim);
  });
  ExpertRound round(context, p, grid, results);
  // The shared expert is always in memory: while others are being read it comes first, alone.
  std::vector<Job> jobs = {shared_job(p, slots)};
  if (lease->reading()) {
    FATHOM_TRY(round.run(jobs));
    jobs.clear();
  }
  for (;;) {
    FATHOM_ASSIGN(const std::span<const LoadedExpert> batch, lease->next());
    for (const LoadedExpert& e : batch) jobs.push_back(routed_job(e, uses.of(e.index)));
    if (jobs.empty()) break;
    FATHOM_TRY(round.run(jobs));
    jobs.clear();
  }
  sum_results(context, p, results);
  return {};
}

}  // namespace fathom::fast
