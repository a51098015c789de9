// Whole documents, as they stand in text files: for tools that look at a document by itself. Training data
// goes through TextSource instead, whose memory is bounded.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "engine/data/text_files.h"

namespace titan {

/// Calls `visit` for every document of `files`, in order, each whole in memory; an empty one too where it is
/// a JSON line. Throws UserError as TextSource does.
void for_each_document(const std::vector<TextFile>& files,
                       const std::function<void(std::string_view)>& visit);

}  // namespace titan
