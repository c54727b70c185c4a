// Types of functions and values of constants, as a set of headers declares
// them.
#pragma once

#include <map>
#include <string>

namespace gimbal::cuda_host {

// By name. Of this layer's headers, and of the toolkit's.
std::map<std::string, std::string> LayerSignatures();
std::map<std::string, std::string> ToolkitSignatures();

}  // namespace gimbal::cuda_host
