// The name, format and shape of every tensor a configuration calls for (spec 2, "Tensors"; 3, 4, 5).
//
// Derived before any file is opened. Comparing it with a checkpoint is tensor_table.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "tensor/view.h"

namespace fathom {

/// What a tensor belongs to. Everything under "mtp." is draft; vision holds the tower, the aligner, the image
/// markers and the text gates' bias_vl, which only image positions use.
enum class TensorGroup {
  embedding,
  attention,
  compressor,
  indexer,
  experts,
  shared_experts,
  gate,
  hyper_connections,
  engram_table,
  engram,
  norm,
  head,
  draft,
  vision,
};

/// How a tensor may be stored (spec 2): the quantized kinds exactly so, the others in any float format.
enum class TensorStorage {
  unquantized,  // F64, F32, F16 or BF16
  e4m3,         // F8_E4M3
  e8m0,         // F8_E8M0
  packed_fp4,   // I8, U8 or F4; bound as e2m1x2
};

struct ExpectedTensor {
  std::string name;
  TensorStorage storage = TensorStorage::unquantized;
  Shape shape;  // in stored elements: [out, in / 2] for packed FP4
  TensorGroup group = TensorGroup::embedding;
  /// The scale of a dense weight: small, and read when the checkpoint is opened to refuse NaN. Scales of
  /// experts and engram tables are large and are checked where they are used.
  bool dense_scale = false;
  /// Whether its group can do without it. Only the draft gates' bias_vl: published, and used by nothing.
  bool optional = false;
};

/// Every tensor of the model in its natural order: embedding, layers, norm, head, draft stages, vision. The
/// released configuration has 96,085. `config` must come from parse_config.
std::vector<ExpectedTensor> make_manifest(const ModelConfig& config);

/// Bytes of one tensor in its released format (BF16 for unquantized ones but those published as F32:
/// attention sinks, gate biases and hyper-connections).
int64_t released_bytes(const ExpectedTensor& tensor);

/// The stored type of the same.
DType released_dtype(const ExpectedTensor& tensor);

/// The group that a tensor of a text model's checkpoint falls to by its name alone: draft, vision, or nothing
/// recognised (text).
enum class NameFamily { text, draft, vision };
NameFamily name_family(std::string_view name);

}  // namespace fathom
