#include "tests/cuda_host/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

namespace gimbal::cuda_host {
namespace {

// The local symbols of one loaded file, by address.
struct Module {
  std::map<uintptr_t, std::string> functions;
  // Function-local variables by their mangled names.
  std::map<std::string, std::span<char>> locals;
};

std::string Contents(const link_map& map) {
  // The program itself has no name there.
  const char* const path =
      map.l_name[0] != '\0' ? map.l_name : "/proc/self/exe";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void AddSymbol(const Elf64_Sym& symbol, std::string_view name, uintptr_t base,
               Module* module) {
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  if (symbol.st_shndx == SHN_UNDEF || !name.starts_with("_Z")) return;
  if (type == STT_FUNC) {
    module->functions.emplace(base + symbol.st_value, name);
  } else if (type == STT_OBJECT && name.starts_with("_ZZ")) {
    module->locals.emplace(
        name, std::span(reinterpret_cast<char*>(base + symbol.st_value),
                        symbol.st_size));
  }
}

Module Read(const link_map& map) {
  Module module;
  const std::string file = Contents(map);
  if (file.size() < sizeof(Elf64_Ehdr)) return module;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections =
      reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  for (int n = 0; n < header->e_shnum; ++n) {
    if (sections[n].sh_type != SHT_SYMTAB) continue;
    const char* names = file.data() + sections[sections[n].sh_link].sh_offset;
    const auto* symbols =
        reinterpret_cast<const Elf64_Sym*>(file.data() + sections[n].sh_offset);
    for (size_t i = 0; i < sections[n].sh_size / sizeof(Elf64_Sym); ++i) {
      AddSymbol(symbols[i], names + symbols[i].st_name, map.l_addr, &module);
    }
  }
  return module;
}

std::string Demangled(const std::string& mangled) {
  char* const text =
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  if (text == nullptr) return mangled;
  std::string name = text;
  std::free(text);
  return name;
}

KernelSymbols LookUp(const Module& module, const void* kernel) {
  const auto address = reinterpret_cast<uintptr_t>(kernel);
  const auto function = module.functions.find(address);
  if (function == module.functions.end()) {
    return {"kernel at " + std::to_string(address), {}};
  }
  KernelSymbols symbols{Demangled(function->second), {}};
  // A variable x of the function _ZF is called _ZZFE1x.
  const std::string prefix = "_ZZ" + function->second.substr(2) + "E";
  for (auto local = module.locals.lower_bound(prefix);
       local != module.locals.end() && local->first.starts_with(prefix);
       ++local) {
    symbols.shared.push_back(local->second);
  }
  return symbols;
}

}  // namespace

const KernelSymbols& SymbolsOf(const void* kernel) {
  static std::mutex mutex;
  static auto* const modules = new std::map<const link_map*, Module>;
  static auto* const known = new std::map<const void*, KernelSymbols>;
  std::lock_guard lock(mutex);
  if (const auto found = known->find(kernel); found != known->end()) {
    return found->second;
  }
  Dl_info info;
  link_map* map = nullptr;
  dladdr1(kernel, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  if (!modules->contains(map)) modules->emplace(map, Read(*map));
  return known->emplace(kernel, LookUp(modules->at(map), kernel)).first->second;
}

}  // namespace gimbal::cuda_host
