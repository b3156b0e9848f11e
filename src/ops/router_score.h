// How router logits become scores (spec 1, MoE).
#pragma once

namespace fathom {

enum class RouterScore { sqrtsoftplus, sigmoid, softmax };

}  // namespace fathom
