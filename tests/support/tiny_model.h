// The tiny golden checkpoint, on the exact CPU path unless said otherwise, with calls that fail the test
// instead of returning errors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "model/model.h"

namespace fathom::testing {

inline int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// `n` ids of text, the begin-of-sentence token first.
inline std::vector<int32_t> random_ids(uint32_t seed, int64_t n) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids{0};
  while (static_cast<int64_t>(ids.size()) < n) ids.push_back(static_cast<int32_t>(3 + random() % 1000));
  return ids;
}

class TinyModel {
 public:
  explicit TinyModel(int num_threads, int64_t max_rows = 512, const std::string& directory = tiny_directory())
      : TinyModel(make_exact_cpu_ops(num_threads), max_rows, directory) {}
  explicit TinyModel(std::unique_ptr<Ops> ops, int64_t max_rows = 512,
                     const std::string& directory = tiny_directory())
      : ops_(std::move(ops)) {
    model_ = take(Model::load(directory, *ops_));
    workspace_ = std::make_unique<Workspace>(take(model_->new_workspace(max_rows)));
  }

  const Model& model() const { return *model_; }
  Workspace& workspace() { return *workspace_; }
  Ops& ops() { return *ops_; }
  Sequence sequence(bool drafting = false) const { return take(model_->new_sequence(drafting)); }

  Logits forward(Sequence& sequence, std::span<const int32_t> ids, int64_t num_logits,
                 Trace* trace = nullptr) {
    const SequenceRows rows{&sequence, ids, num_logits};
    return take(model_->forward(*workspace_, {&rows, 1}, trace));
  }
  Logits forward(std::span<const SequenceRows> rows) { return take(model_->forward(*workspace_, rows)); }

  static std::string tiny_directory() { return std::string(FATHOM_SOURCE_DIR) + "/tests/golden/tiny/model"; }

  template <class T>
  static T take(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace fathom::testing
