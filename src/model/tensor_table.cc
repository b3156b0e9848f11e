#include "model/tensor_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>

#include "base/check.h"
#include "checkpoint/problems.h"

namespace fathom {
namespace {

std::string_view storage_name(TensorStorage storage) {
  switch (storage) {
    case TensorStorage::unquantized:
      return "BF16, F32, F16 or F64";
    case TensorStorage::e4m3:
      return "F8_E4M3";
    case TensorStorage::e8m0:
      return "F8_E8M0";
    case TensorStorage::packed_fp4:
      return "packed FP4 (I8, U8 or F4)";
  }
  return "?";
}

bool accepts(TensorStorage storage, DType dtype) {
  switch (storage) {
    case TensorStorage::unquantized:
      return is_float(dtype);
    case TensorStorage::e4m3:
      return dtype == DType::e4m3;
    case TensorStorage::e8m0:
      return dtype == DType::e8m0;
    case TensorStorage::packed_fp4:
      return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::e2m1x2;
  }
  return false;
}

NameFamily family_of(TensorGroup group) {
  if (group == TensorGroup::draft) return NameFamily::draft;
  if (group == TensorGroup::vision) return NameFamily::vision;
  return NameFamily::text;
}

// Walks manifest and checkpoint side by side, both ascending by name.
class Binder {
 public:
  Binder(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& manifest)
      : checkpoint_(checkpoint), manifest_(manifest) {}

  void run() {
    std::vector<uint32_t> order(manifest_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return manifest_[a].name < manifest_[b].name; });
    const std::span<const Checkpoint::Entry> stored = checkpoint_.entries();
    bound_.reserve(manifest_.size());
    size_t s = 0;
    for (const uint32_t number : order) {
      const ExpectedTensor& expected = manifest_[number];
      while (s < stored.size() && stored[s].tensor->name < expected.name) surplus(stored[s++]);
      if (s < stored.size() && stored[s].tensor->name == expected.name)
        pair(expected, stored[s++]);
      else
        missing(expected);
    }
    while (s < stored.size()) surplus(stored[s++]);
    check_scales();
  }

  const Problems& problems(NameFamily family) const { return problems_[static_cast<size_t>(family)]; }

  /// The tensors of families without problems, ascending by name.
  std::vector<TensorView> take() const {
    std::vector<TensorView> views;
    views.reserve(bound_.size());
    for (const Bound& bound : bound_)
      if (problems(family_of(bound.expected->group)).empty()) views.push_back(bound.view);
    return views;
  }

 private:
  struct Bound {
    const ExpectedTensor* expected;
    TensorView view;
  };

  Problems& problems_of(TensorGroup group) { return problems_[static_cast<size_t>(family_of(group))]; }

  std::string path_of(std::string_view file) const { return (checkpoint_.directory() / file).string(); }

  void surplus(const Checkpoint::Entry& entry) {
    Problems& problems = problems_[static_cast<size_t>(name_family(entry.tensor->name))];
    problems.add("{}: surplus tensor {}: expected nothing of this name, found {} {}",
                 path_of(checkpoint_.file_of(entry)), printable(entry.tensor->name),
                 dtype_name(entry.tensor->dtype), entry.tensor->shape.to_string());
  }

  void missing(const ExpectedTensor& expected) {
    if (expected.optional) return;
    problems_of(expected.group)
        .add("{}: missing tensor {}: expected {} {}, found nothing", checkpoint_.directory().string(),
             expected.name, storage_name(expected.storage), expected.shape.to_string());
  }

  void pair(const ExpectedTensor& expected, const Checkpoint::Entry& entry) {
    TensorView view = *entry.tensor;
    if (!accepts(expected.storage, view.dtype) || view.shape != expected.shape) {
      problems_of(expected.group)
          .add("{}: tensor {}: expected {} {}, found {} {}", path_of(checkpoint_.file_of(entry)),
               expected.name, storage_name(expected.storage), expected.shape.to_string(),
               dtype_name(view.dtype), view.shape.to_string());
      return;
    }
    if (expected.storage == TensorStorage::packed_fp4) view.dtype = DType::e2m1x2;
    bound_.push_back({&expected, view});
  }

  void check_scales() {
    for (const Bound& bound : bound_)
      if (bound.expected->dense_scale) checkpoint_.will_need(bound.view);
    for (const Bound& bound : bound_) {
      if (!bound.expected->dense_scale) continue;
      constexpr int nan = 0xFF;
      const auto size = static_cast<size_t>(bound.view.bytes());
      const void* at = size == 0 ? nullptr : std::memchr(bound.view.data, nan, size);
      if (at == nullptr) continue;
      problems_of(bound.expected->group)
          .add("{}: tensor {}: expected finite scales, found NaN (0xFF) at element {}",
               path_of(checkpoint_.file_of(bound.view.name)), bound.expected->name,
               static_cast<const std::byte*>(at) - bound.view.data);
    }
  }

  const Checkpoint& checkpoint_;
  const std::vector<ExpectedTensor>& manifest_;
  std::vector<Bound> bound_;
  std::array<Problems, 3> problems_;
};

std::string group_problem(const Problems& problems, bool configured, std::string_view what) {
  if (!configured) return fmt::format("the configuration has no {}", what);
  return problems.empty() ? std::string() : problems.text();
}

}  // namespace

Result<TensorTable> TensorTable::bind(const Checkpoint& checkpoint, const ModelConfig& config) {
  return bind(checkpoint, make_manifest(config));
}

Result<TensorTable> TensorTable::bind(const Checkpoint& checkpoint,
                                      const std::vector<ExpectedTensor>& manifest) {
  Binder binder(checkpoint, manifest);
  binder.run();
  if (const Problems& text = binder.problems(NameFamily::text); !text.empty())
    return fail(ErrorCode::format, "{}", text.text());

  const auto configured = [&](TensorGroup group) {
    return std::any_of(manifest.begin(), manifest.end(),
                       [group](const ExpectedTensor& tensor) { return tensor.group == group; });
  };
  TensorTable table;
  table.draft_problem_ =
      group_problem(binder.problems(NameFamily::draft), configured(TensorGroup::draft), "draft stages");
  table.vision_problem_ =
      group_problem(binder.problems(NameFamily::vision), configured(TensorGroup::vision), "vision tower");
  table.tensors_ = binder.take();
  return table;
}

bool TensorTable::available(TensorGroup group) const {
  if (group == TensorGroup::draft) return draft_available();
  if (group == TensorGroup::vision) return vision_available();
  return true;
}

const TensorView* TensorTable::try_find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& tensor, std::string_view n) { return tensor.name < n; });
  return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

void TensorTable::relocate(std::string_view name, const std::byte* data) {
  const TensorView& tensor = find(name);
  tensors_[static_cast<size_t>(&tensor - tensors_.data())].data = data;
}

const TensorView& TensorTable::find(std::string_view name) const {
  const TensorView* tensor = try_find(name);
  if (tensor == nullptr) [[unlikely]]
    internal::check_failed(__FILE__, __LINE__, "the tensor is bound", std::string(name));
  return *tensor;
}

}  // namespace fathom
