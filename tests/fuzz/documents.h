// The documents of a text file, read in chunks.
#pragma once

#include "engine/data/text_files.h"

#include <string>
#include <vector>

namespace titan::fuzz {

/// Throws UserError as TextSource does. Checks that documents begin and end in turn.
std::vector<std::string> documents_of(const TextFile& file, size_t chunk_bytes);

}  // namespace titan::fuzz
