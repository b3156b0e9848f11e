// The commands of fathom, one source file each, in the order in which --help lists them.
#pragma once

#include "cli/command.h"

namespace fathom {

void add_generate(CLI::App& app, Action& chosen);
void add_chat(CLI::App& app, Action& chosen);
void add_inspect(CLI::App& app, Action& chosen);
void add_tokenize(CLI::App& app, Action& chosen);
void add_render(CLI::App& app, Action& chosen);
void add_parse(CLI::App& app, Action& chosen);
void add_preprocess(CLI::App& app, Action& chosen);
void add_logits(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);

inline constexpr AddCommand all_commands[] = {add_generate, add_chat,  add_inspect,    add_tokenize,
                                              add_render,   add_parse, add_preprocess, add_logits,
                                              add_eval,     add_bench};

}  // namespace fathom
