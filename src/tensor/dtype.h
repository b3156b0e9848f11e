// The stored number formats. A format is never erased: FP8 stays e4m3, its scales stay e8m0 (spec 2).
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  e4m3,    // FP8 "fn": no infinities, 0x7F/0xFF NaN, max 448
  e8m0,    // a power of two: 2^(code - 127), 0xFF NaN
  e2m1x2,  // two FP4 in a byte, the even column in the low nibble
  i64,
  i32,
  u8,
  boolean,
  i8,  // also how packed FP4 is spelled in checkpoints, until a manifest says what it is
  i16,
  u16,
  u32,
  u64,
};

/// Bytes of one stored element; an e2m1x2 element is the byte that holds two values.
constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::e4m3:
    case DType::e8m0:
    case DType::e2m1x2:
    case DType::u8:
    case DType::boolean:
    case DType::i8:
      return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::e4m3:
      return "F8_E4M3";
    case DType::e8m0:
      return "F8_E8M0";
    case DType::e2m1x2:
      return "E2M1x2";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
    case DType::i8:
      return "I8";
    case DType::i16:
      return "I16";
    case DType::u16:
      return "U16";
    case DType::u32:
      return "U32";
    case DType::u64:
      return "U64";
  }
  return "?";
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace fathom
