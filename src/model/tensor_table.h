// A checkpoint's tensors, checked against the manifest and given their meaning (spec 2).
//
// Decides what is refused and what is only switched off; computes nothing and copies no data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/manifest.h"
#include "tensor/view.h"

namespace fathom {

class TensorTable {
 public:
  /// Compares every tensor of `checkpoint`, which must outlive the result, with `config`'s manifest. A text
  /// tensor that is missing, surplus, of the wrong format or shape, or a NaN in the scale of a dense text
  /// weight, refuses the checkpoint: the message lists such problems (20 at most), each with file, tensor,
  /// what was expected and what was found. Problems of the draft or vision tensors make that group
  /// unavailable instead. Reads only the dense weights' scales. Errors: format.
  static Result<TensorTable> bind(const Checkpoint& checkpoint, const ModelConfig& config);
  static Result<TensorTable> bind(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& manifest);

  /// A tensor of the manifest, which must be there: a text tensor, or one of a group that is available.
  /// Packed FP4 is e2m1x2 with shape [out, in / 2] however the file spells it. The view's name is the
  /// checkpoint's.
  const TensorView& find(std::string_view name) const;
  /// The same, or null when there is no such tensor or its group is unavailable.
  const TensorView* try_find(std::string_view name) const;

  /// Makes a tensor of the manifest, which must be there, stand elsewhere in memory: views asked for from now
  /// on point there.
  void relocate(std::string_view name, const std::byte* data);

  /// Why the draft stages (vision) cannot run: empty when they can. Not configured counts as a reason.
  const std::string& draft_problem() const { return draft_problem_; }
  const std::string& vision_problem() const { return vision_problem_; }
  bool draft_available() const { return draft_problem_.empty(); }
  bool vision_available() const { return vision_problem_.empty(); }

  /// Whether the group's tensors may be asked for. Text groups always.
  bool available(TensorGroup group) const;

  size_t size() const { return tensors_.size(); }

 private:
  TensorTable() = default;

  std::vector<TensorView> tensors_;  // ascending by name; available groups only
  std::string draft_problem_;
  std::string vision_problem_;
};

}  // namespace fathom
