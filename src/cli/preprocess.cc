// fathom preprocess: image files as the model's vision part takes them, as a safetensors file.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "base/cancel.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/commands.h"
#include "cli/image_file.h"
#include "cli/progress_display.h"
#include "cli/signals.h"
#include "tensor/bfloat16.h"
#include "text/utf8.h"

namespace fathom {
namespace {

struct Flags {
  std::filesystem::path model;
  std::vector<std::filesystem::path> files;
  std::filesystem::path out;

  // The base names will tell the tensors apart.
  void check() const {
    std::map<std::string, std::filesystem::path> seen;  // tensors
    for (const std::filesystem::path& file : files) {
      const std::string name = file.filename().string();
      if (name.empty() || name == "__metadata__" || find_invalid_utf8(name) != std::string::npos)
        throw CLI::ValidationError("FILE", fmt::format("expected a name that a tensor can have, found {}",
                                                       printable(file.string())));
      for (const char* suffix : {"", ".grid", ".patches"}) {
        const auto [other, is_new] = seen.emplace(name + suffix, file);
        if (!is_new)
          throw CLI::ValidationError("FILE", fmt::format("expected files of different names, found {} and {}",
                                                         other->second.string(), file.string()));
      }
      std::error_code missing;  // neither, or not yet
      if (std::filesystem::equivalent(file, out, missing))
        throw CLI::ValidationError("--out", fmt::format("it is the image {}", file.string()));
    }
  }
};

// One file's tensors. Views refer to it: it must stay where it is.
struct Entry {
  std::string name, grid_name, patches_name;
  PreparedImage image;
  std::vector<int32_t> grid;  // patch rows, patch columns, token rows, token columns
  std::vector<bf16> values;

  void add_views(std::vector<TensorView>& views) const {
    const int64_t patches = image.plan.patches();
    const Shape shape{patches, static_cast<int64_t>(image.levels.size()) / patches};
    const auto add = [&](const auto& data, DType dtype, Shape of, std::string_view named) {
      views.push_back({reinterpret_cast<const std::byte*>(data.data()), dtype, of, named});
    };
    add(image.levels, DType::u8, shape, name);
    add(grid, DType::i32, Shape{4}, grid_name);
    add(values, DType::bf16, shape, patches_name);
  }
};

Result<Entry> prepare(const std::filesystem::path& path, const ImageRules& rules) {
  FATHOM_ASSIGN(const std::string file, read_image_file(path));
  Entry entry;
  entry.name = path.filename().string();
  entry.grid_name = entry.name + ".grid";
  entry.patches_name = entry.name + ".patches";
  FATHOM_ASSIGN(entry.image, prepare_image(std::as_bytes(std::span(file)), path.string(), rules));
  const ImagePlan& plan = entry.image.plan;
  for (const int64_t count : {plan.patch_rows, plan.patch_cols, plan.grid_rows, plan.grid_cols})
    entry.grid.push_back(static_cast<int32_t>(count));
  entry.values.reserve(entry.image.levels.size());
  for (const uint8_t level : entry.image.levels) entry.values.push_back(to_bf16(image_value(level)));
  return entry;
}

Status prepare_all(const Flags& flags, const ImageRules& rules, const Surroundings& surroundings,
                   std::vector<Entry>& entries) {
  for (const std::filesystem::path& file : flags.files) {
    FATHOM_TRY(check_cancelled(interrupted));
    FATHOM_ASSIGN(Entry entry, prepare(file, rules));
    FATHOM_TRY(check_cancelled(interrupted));
    entries.push_back(std::move(entry));
    FATHOM_TRY(show_count(surroundings, fmt::format("{} of {}", entries.size(), flags.files.size())));
  }
  return {};
}

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const ModelConfig config, load_config(flags.model));
  if (!config.vision)
    return fail(ErrorCode::unsupported, "{}: expected a model with a vision part, found one without",
                (flags.model / "config.json").string());
  FATHOM_TRY(check_writable(flags.out));
  std::vector<Entry> entries;
  const Status prepared = prepare_all(flags, image_rules(*config.vision), surroundings, entries);
  FATHOM_TRY(show_count(surroundings, ""));
  FATHOM_TRY(prepared);
  std::vector<TensorView> views;
  for (const Entry& entry : entries) entry.add_views(views);
  return write_safetensors(flags.out, views);
}

}  // namespace

void add_preprocess(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("preprocess", "Write images as the model's vision part takes them");
  command->footer(
      "Reads PNG, JPEG, WebP and GIF (first frame) files, and config.json of the model. For a file named "
      "NAME:\n"
      "  NAME          U8 [patches, 3 * patch * patch], levels: channel, row, column\n"
      "  NAME.grid     I32 [4], rows and columns of patches, rows and columns of tokens\n"
      "  NAME.patches  BF16, the same levels in [-1, 1]");
  const auto flags = std::make_shared<Flags>();
  command->add_option("files", flags->files, "The images; their names without directories must differ")
      ->required()
      ->type_name("FILE");
  command->add_option("--model", flags->model, "Directory with a config.json")->required()->type_name("DIR");
  command->add_option("--out", flags->out, "Safetensors file")->required()->type_name("FILE");
  command->callback([flags, &chosen] {
    flags->check();
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
