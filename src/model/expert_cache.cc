#include "model/expert_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/check.h"

namespace fathom {
namespace {

std::array<TensorView*, 6> tensors_of(ExpertWeights& e) {
  return {&e.w1.data, &e.w1.scale, &e.w3.data, &e.w3.scale, &e.w2.data, &e.w2.scale};
}

// Hints are acted on when nearly all of the past ones were right; the first ones are only watched.
constexpr double enough_precision = 0.9;
constexpr double forgetting = 0.1;  // the weight of the latest hint

}  // namespace

int64_t ExpertCache::add_layer(std::vector<ExpertWeights> experts) {
  FATHOM_CHECK(slots_.empty());
  layers_.push_back({static_cast<int32_t>(experts_.size()), static_cast<int32_t>(experts.size()), {}, {}});
  for (ExpertWeights& weights : experts) {
    std::vector<Checkpoint::Place> places;
    for (const TensorView* tensor : tensors_of(weights)) {
      const auto place = checkpoint_.place_of(tensor->name);
      FATHOM_CHECK(place.has_value());
      places.push_back(*place);
    }
    Expert& expert = experts_.emplace_back();
    expert.weights = weights;
    expert.plan = plan_reads(places);
    slot_bytes_ = std::max(slot_bytes_, static_cast<int64_t>(expert.plan.block_bytes));
  }
  return static_cast<int64_t>(layers_.size()) - 1;
}

Status ExpertCache::reserve(int64_t num_slots) {
  FATHOM_CHECK_LE(1, num_slots);
  num_slots = std::min(num_slots, num_experts());
  FATHOM_ASSIGN(pool_, HugeBuffer::allocate(num_slots * slot_bytes_));
  slots_.resize(static_cast<size_t>(num_slots));
  for (int64_t i = num_slots; i-- > 0;) empty_.push_back(static_cast<int32_t>(i));
  return {};
}

ExpertCounters ExpertCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// 1 for this use, and what is left of the earlier ones.
double ExpertCache::used_now(double value) const { return now() + std::log2(1 + std::exp2(value - now())); }

void ExpertCache::score_forecast(Layer& layer, std::span<const int32_t> experts) {
  for (size_t i = 0; i < layer.expected.size(); ++i) {
    const bool right = std::binary_search(experts.begin(), experts.end(), layer.expected[i]);
    ++counters_.forecast;
    counters_.forecast_right += right;
    layer.precision[i] += forgetting * ((right ? 1 : 0) - layer.precision[i]);
  }
  layer.expected.clear();
}

// Takes note of what has become of a read. True when it is over.
bool ExpertCache::settle(int32_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.state != State::loading) return true;
  if (!reader_.done(s.ticket)) return false;
  s.status = reader_.wait(s.ticket);
  std::erase(loading_, slot);
  s.state = s.status ? State::ready : State::failed;
  if (!s.status) experts_[static_cast<size_t>(s.expert)].slot = -1;  // the next one who asks tries again
  if (s.holders > 0) return true;
  if (s.status) {
    evictable_.emplace(s.value, slot);
  } else {
    s = {};
    empty_.push_back(slot);
  }
  return true;
}

void ExpertCache::settle() {
  for (const int32_t slot : std::vector<int32_t>(loading_)) settle(slot);
}

// An empty slot, making room if need be; -1 when everything is held or being read.
int32_t ExpertCache::find_slot() {
  if (!has_room()) settle();
  if (!empty_.empty()) {
    const int32_t slot = empty_.back();
    empty_.pop_back();
    return slot;
  }
  if (evictable_.empty()) return -1;
  const int32_t slot = evictable_.begin()->second;
  evictable_.erase(evictable_.begin());
  Slot& s = slots_[static_cast<size_t>(slot)];
  experts_[static_cast<size_t>(s.expert)].slot = -1;
  s = {};
  return slot;
}

bool ExpertCache::start_read(int32_t expert, ReadUrgency urgency) {
  const int32_t slot = find_slot();
  if (slot < 0) return false;
  Expert& e = experts_[static_cast<size_t>(expert)];
  Slot& s = slots_[static_cast<size_t>(slot)];
  std::byte* const block = pool_.data() + slot * slot_bytes_;
  s.state = State::loading;
  s.expert = expert;
  s.prefetched = urgency == ReadUrgency::ahead;
  s.value = used_now(e.value);
  s.weights = e.weights;
  const auto tensors = tensors_of(s.weights);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->data = block + e.plan.positions[i];
  s.ticket = reader_.submit(e.plan.requests(shards_, block), urgency);
  counters_.bytes_read += static_cast<int64_t>(e.plan.block_bytes);
  e.slot = slot;
  loading_.push_back(slot);
  return true;
}

void ExpertCache::hold(int32_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.holders++ == 0 && s.state == State::ready) evictable_.erase({s.value, slot});
}

void ExpertCache::release(int32_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  FATHOM_CHECK(s.holders > 0);
  if (--s.holders > 0) return;
  if (s.state == State::ready) {
    s.value = std::max(s.value, experts_[static_cast<size_t>(s.expert)].value);
    evictable_.emplace(s.value, slot);
  } else if (s.state == State::failed) {
    s = {};
    empty_.push_back(slot);
  }
  released_.notify_all();
}

void ExpertCache::expect(int64_t layer, std::span<const int32_t> experts) {
  const std::lock_guard lock(mutex_);
  Layer& l = layers_[static_cast<size_t>(layer)];
  l.expected.assign(experts.begin(), experts.end());
  l.precision.resize(std::max(l.precision.size(), experts.size()));
  ahead_.clear();
  if (holds_all()) return;
  for (size_t i = 0; i < experts.size() && l.precision[i] >= enough_precision; ++i)
    ahead_.push_back(l.first + experts[i]);
}

// What is held now will be let go, so a quarter of all slots is room enough for the rest of this layer.
void ExpertCache::read_ahead() {
  if (ahead_.empty()) return;
  settle();
  auto room = static_cast<int64_t>(empty_.size() + evictable_.size()) - num_slots() / 4;
  for (const int32_t e : std::exchange(ahead_, {})) {
    if (experts_[static_cast<size_t>(e)].slot >= 0) continue;
    if (room-- <= 0 || !start_read(e, ReadUrgency::ahead)) return;
    ++counters_.prefetched;
  }
}

// Experts go from missing (no slot), over loading (a slot and a read), to given, and are then let go.
class ExpertCache::Lease final : public ExpertLease {
 public:
  Lease(ExpertCache& cache, int64_t layer, std::span<const int32_t> experts) : cache_(cache) {
    const std::lock_guard lock(cache_.mutex_);
    Layer& l = cache_.layers_[static_cast<size_t>(layer)];
    first_ = l.first;
    cache_.score_forecast(l, experts);
    ++cache_.takes_;
    // What is there is held before anything makes room.
    for (const int32_t index : experts) {
      FATHOM_CHECK(index >= 0 && index < l.size);
      Expert& e = cache_.experts_[static_cast<size_t>(first_ + index)];
      e.value = cache_.used_now(e.value);
      if (e.slot < 0)
        missing_.push_back(first_ + index);
      else
        hold_present(e.slot);
    }
    start_missing();
    if (missing_.empty()) cache_.read_ahead();
  }

  ~Lease() override {
    const std::lock_guard lock(cache_.mutex_);
    for (const int32_t slot : given_) cache_.release(slot);
    for (const int32_t slot : ready_) cache_.release(slot);
    for (const int32_t slot : loading_) cache_.release(slot);
  }

  Result<std::span<const LoadedExpert>> next() override {
    std::unique_lock lock(cache_.mutex_);
    for (const int32_t slot : given_) cache_.release(slot);
    given_.clear();
    for (;;) {
      start_missing();
      FATHOM_TRY(collect());
      if (!ready_.empty() || (loading_.empty() && missing_.empty())) return give();
      wait(lock);
    }
  }

  bool reading() const override { return !missing_.empty() || !loading_.empty(); }

 private:
  void hold_present(int32_t slot) {
    Slot& s = cache_.slots_[static_cast<size_t>(slot)];
    cache_.hold(slot);
    ++cache_.counters_.hits;
    cache_.counters_.prefetched_used += s.prefetched;
    s.prefetched = false;
    if (s.state == State::loading) cache_.reader_.hurry(s.ticket);
    (s.state == State::loading ? loading_ : ready_).push_back(slot);
  }

  // Reads as many as there is room for; another lease may have read one meanwhile.
  void start_missing() {
    size_t started = 0;
    for (; started < missing_.size(); ++started) {
      const int32_t expert = missing_[started];
      const int32_t present = cache_.experts_[static_cast<size_t>(expert)].slot;
      if (present >= 0) {
        hold_present(present);
        continue;
      }
      if (!cache_.start_read(expert, ReadUrgency::needed)) break;
      ++cache_.counters_.misses;
      const int32_t slot = cache_.experts_[static_cast<size_t>(expert)].slot;
      cache_.hold(slot);
      loading_.push_back(slot);
    }
    missing_.erase(missing_.begin(), missing_.begin() + static_cast<std::ptrdiff_t>(started));
  }

  // Moves what has been read from loading to ready.
  Status collect() {
    std::vector<int32_t> still;
    Status status;
    for (const int32_t slot : loading_) {
      if (!cache_.settle(slot)) {
        still.push_back(slot);
        continue;
      }
      const Slot& s = cache_.slots_[static_cast<size_t>(slot)];
      if (!s.status) status = s.status;
      ready_.push_back(slot);
    }
    loading_ = std::move(still);
    return status;
  }

  std::span<const LoadedExpert> give() {
    given_ = std::exchange(ready_, {});
    loaded_.clear();
    for (const int32_t slot : given_) {
      const Slot& s = cache_.slots_[static_cast<size_t>(slot)];
      loaded_.push_back({s.expert - first_, &s.weights});
    }
    return loaded_;
  }

  // Until a read ends, be it one of this lease's or, without those, one that takes up a slot.
  void wait(std::unique_lock<std::mutex>& lock) {
    if (loading_.empty()) {
      cache_.settle();  // what its holder has not looked at yet is no reason to wait
      if (cache_.has_room()) return;
    }
    const auto began = std::chrono::steady_clock::now();
    const std::vector<int32_t>& slots = loading_.empty() ? cache_.loading_ : loading_;
    std::vector<AsyncReader::Ticket> tickets;
    for (const int32_t slot : slots) tickets.push_back(cache_.slots_[static_cast<size_t>(slot)].ticket);
    if (tickets.empty()) {
      cache_.released_.wait(lock);  // other leases hold every slot
    } else {
      lock.unlock();
      cache_.reader_.wait_any(tickets);
      lock.lock();
    }
    cache_.counters_.wait_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  ExpertCache& cache_;
  int32_t first_ = 0;
  std::vector<int32_t> missing_;                  // experts
  std::vector<int32_t> loading_, ready_, given_;  // slots
  std::vector<LoadedExpert> loaded_;
};

class ExpertCache::Source final : public ExpertSource {
 public:
  Source(ExpertCache& cache, int64_t layer) : cache_(cache), layer_(layer) {}
  int64_t size() const override { return cache_.layers_[static_cast<size_t>(layer_)].size; }
  std::unique_ptr<ExpertLease> take(std::span<const int32_t> experts) override {
    return std::make_unique<Lease>(cache_, layer_, experts);
  }

 private:
  ExpertCache& cache_;
  int64_t layer_;
};

std::unique_ptr<ExpertSource> ExpertCache::source(int64_t layer) {
  return std::make_unique<Source>(*this, layer);
}

}  // namespace fathom
