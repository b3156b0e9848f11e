// What was measured, as tables of at most 100 columns and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/disk.h"
#include "bench/limits.h"
#include "bench/measure_operations.h"
#include "bench/model_speed.h"

namespace fathom::bench {

// Tables, each with its heading. Rates are medians of clean samples; "clean 7/9" counts those.
std::string limits_text(const MachineLimits& limits);
std::string disk_text(const DiskLimits& disk);
std::string operations_heading(std::string_view backend, const MachineLimits& limits);
std::string operation_line(const OperationResult& result, const MachineLimits& limits);
std::string model_text(const ModelSpeed& speed, const MachineLimits& limits);

// The same as JSON, in SI units: seconds, bytes and FLOP per second.
Json limits_json(const MachineLimits& limits);
Json disk_json(const DiskLimits& disk);
Json operation_json(const OperationResult& result, const MachineLimits& limits);
Json model_json(const ModelSpeed& speed, const MachineLimits& limits);

}  // namespace fathom::bench
