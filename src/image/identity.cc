#include "image/identity.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <memory>

#include "base/check.h"

namespace fathom {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Eight bytes, little-endian.
void add_number(EVP_MD_CTX* context, int64_t value) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  FATHOM_CHECK_EQ(EVP_DigestUpdate(context, bytes.data(), bytes.size()), 1);
}

}  // namespace

std::string ImageIdentity::to_hex() const {
  std::string out;
  for (const uint8_t byte : bytes_) out += fmt::format("{:02x}", byte);
  return out;
}

ImageIdentity identify_image(std::span<const std::byte> file, const ImagePlan& plan) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  FATHOM_CHECK(context != nullptr);
  FATHOM_CHECK_EQ(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr), 1);
  // The plan first: it has a fixed length, so no file can pass for a plan and another file.
  for (const int64_t number : {plan.width, plan.height, plan.patch_rows, plan.patch_cols, plan.grid_rows,
                               plan.grid_cols, static_cast<int64_t>(plan.fit)})
    add_number(context.get(), number);
  FATHOM_CHECK_EQ(EVP_DigestUpdate(context.get(), file.data(), file.size()), 1);
  ImageIdentity::Bytes digest;
  unsigned length = 0;
  FATHOM_CHECK_EQ(EVP_DigestFinal_ex(context.get(), digest.data(), &length), 1);
  FATHOM_CHECK_EQ(length, digest.size());
  return ImageIdentity(digest);
}

}  // namespace fathom
