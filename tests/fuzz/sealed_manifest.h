// titan.json with a right hash around any content: only a wrong program writes it, so it is checked all the
// same.
#pragma once

#include <string>
#include <string_view>

namespace titan::fuzz {

/// `content` itself if it is not JSON. `data` are the bytes of the checkpoint's first file: its sizes and
/// hashes are made to match where the content has places for them.
std::string sealed_manifest(std::string_view content, std::string_view data = {});

}  // namespace titan::fuzz
