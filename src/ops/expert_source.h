// Where a layer's routed experts come from: memory, a cache in front of a disk, another device.
//
// An expert layer touches a few of many experts. It names them all at once, and then takes them as they come:
// those in memory first, while the others are still being read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tensor/weight.h"

namespace fathom {

/// w1 and w3 [inter, dim], w2 [dim, inter] (spec 1, MoE).
struct ExpertWeights {
  Weight w1, w2, w3;
};

struct LoadedExpert {
  int32_t index = 0;
  const ExpertWeights* weights = nullptr;
};

/// Some experts of one layer, on their way. Used by one thread; gives everything back when it is destroyed.
class ExpertLease {
 public:
  virtual ~ExpertLease() = default;

  /// The next of them, in any order: those that are in memory, at least one, waiting if need be. They stay
  /// valid until the next call, which gives them back. Empty when all have been given. Errors: io, naming
  /// the file.
  virtual Result<std::span<const LoadedExpert>> next() = 0;

  /// Whether some are still being read, so that there is time for something else.
  virtual bool reading() const = 0;
};

/// The routed experts of one layer. Several leases may be held at once, by several threads.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;
  virtual int64_t size() const = 0;

  /// `experts`: ascending, no duplicates. Starts reading what is not in memory.
  virtual std::unique_ptr<ExpertLease> take(std::span<const int32_t> experts) = 0;
};

/// Experts that are all in memory, or in mapped files.
class ResidentExperts final : public ExpertSource {
 public:
  explicit ResidentExperts(std::vector<ExpertWeights> weights) : weights_(std::move(weights)) {}
  int64_t size() const override { return static_cast<int64_t>(weights_.size()); }
  const ExpertWeights& operator[](int64_t i) const { return weights_[static_cast<size_t>(i)]; }

  std::unique_ptr<ExpertLease> take(std::span<const int32_t> experts) override {
    auto lease = std::make_unique<Lease>();
    for (int32_t e : experts) lease->experts.push_back({e, &weights_[static_cast<size_t>(e)]});
    return lease;
  }

 private:
  struct Lease final : ExpertLease {
    Result<std::span<const LoadedExpert>> next() override {
      const std::span<const LoadedExpert> all = given ? std::span<const LoadedExpert>{} : experts;
      given = true;
      return all;
    }
    bool reading() const override { return false; }
    std::vector<LoadedExpert> experts;
    bool given = false;
  };

  std::vector<ExpertWeights> weights_;
};

}  // namespace fathom
