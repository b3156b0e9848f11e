// The images of prompts: files read, prepared and embedded once each.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "cli/command.h"
#include "engine/prompt.h"
#include "model/model.h"
#include "text/chat_render.h"

namespace fathom {

class PromptImages {
 public:
  /// Both must outlive it. Progress is shown unless `quiet`.
  PromptImages(const Model& model, const Surroundings& surroundings, bool quiet)
      : model_(model), surroundings_(surroundings), quiet_(quiet) {}

  /// The span of an image file, kept for as long as this lives. Errors name the file: it cannot be read or is
  /// no image within limits; unsupported for a model without vision; cancelled on an interrupt.
  Result<std::shared_ptr<const ImageEmbedding>> load(const std::filesystem::path& file);

  /// Lets go of all images.
  void forget() { embedded_.clear(); }

  /// A part of a user's message that stands for an image that load gave.
  static Json message_part(const ImageEmbedding& image);

  /// Tokenizes a rendered conversation and puts its images in their places. What the messages say stays text:
  /// no special tokens come from it. Its image parts must be of message_part.
  Result<Prompt> place(const RenderedPrompt& rendered) const;

  /// The same for a text, in which a placeholder may be spelled for each image; where none is, the images
  /// stand at the beginning. The prompt begins with the begin-of-sentence token, written or not.
  Result<Prompt> place(const std::string& text,
                       std::span<const std::shared_ptr<const ImageEmbedding>> images) const;

 private:
  const Model& model_;
  const Surroundings& surroundings_;
  bool quiet_;
  std::map<ImageIdentity, std::shared_ptr<const ImageEmbedding>> embedded_;
};

}  // namespace fathom
