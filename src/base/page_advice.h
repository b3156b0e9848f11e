// Advice to the kernel about mapped pages.
//
// Policy (spec 2, "never read through at start"; spec 3, "where the tables live"): before anything of it is
// read a whole shard is marked for random access, so that a touched byte brings in its own page and
// no neighbours. Whoever is about to read a tensor, an expert or a set of engram rows says so first with
// will_need, which starts the reads together instead of one page fault after the other. Advice never
// fails: where the kernel does not take it, reading is slower and as right as before.
#pragma once

#include <cstddef>
#include <span>

namespace fathom {

/// No read-ahead around faults in the pages that hold `bytes`.
void advise_random(std::span<const std::byte> bytes);

/// Starts reading the pages that hold `bytes`; returns without waiting for them.
void advise_will_need(std::span<const std::byte> bytes);

}  // namespace fathom
