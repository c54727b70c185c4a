#include "coordinator/cli/sweep_spec.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::cli {
namespace {

// Reads the nodes of one file and says where one is wrong.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  absl::Status Error(const YAML::Node& node, const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", node.Mark().line + 1, ": ", what));
  }

  absl::Status CheckKeys(const YAML::Node& map,
                         const std::set<std::string>& known) const {
    if (!map.IsMap()) return Error(map, "expected keys with values");
    for (const auto& item : map) {
      const auto key = item.first.as<std::string>();
      if (known.contains(key)) continue;
      return Error(item.first,
                   absl::StrCat("unknown key '", key, "' of a sweep"));
    }
    return absl::OkStatus();
  }

  // Scalars of a list, or one scalar.
  absl::StatusOr<std::vector<std::string>> Texts(const YAML::Node& node) const {
    if (node.IsScalar()) return std::vector{node.Scalar()};
    std::vector<std::string> texts;
    if (node.IsSequence()) {
      for (const YAML::Node& item : node) {
        if (!item.IsScalar()) return Error(item, "expected a value");
        texts.push_back(item.Scalar());
      }
    }
    if (texts.empty()) return Error(node, "expected a list, e.g. [1, 2]");
    return texts;
  }

  template <typename T>
  absl::StatusOr<std::vector<T>> Numbers(const YAML::Node& node,
                                         T least) const {
    GIMBAL_ASSIGN_OR_RETURN(const std::vector<std::string> texts, Texts(node));
    std::vector<T> numbers;
    for (const std::string& text : texts) {
      T number{};
      if (!YAML::convert<T>::decode(YAML::Node(text), number) ||
          !(number >= least)) {
        return Error(node, absl::StrCat("'", text,
                                        "': expected a number of at "
                                        "least ",
                                        least));
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  absl::StatusOr<std::vector<std::string>> Overrides(
      const YAML::Node& map) const {
    if (!map.IsMap()) return Error(map, "expected {a.b: value, ...}");
    std::vector<std::string> overrides;
    for (const auto& item : map) {
      YAML::Emitter value;
      value << YAML::Flow << item.second;
      overrides.push_back(
          absl::StrCat(item.first.as<std::string>(), "=", value.c_str()));
    }
    return overrides;
  }

  absl::StatusOr<SweepMethod> Method(const std::string& name, YAML::Node map,
                                     const SweepMethod& defaults) const {
    SweepMethod method = defaults;
    method.name = name;
    // It becomes part of a folder's name.
    const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
             c == '-' || c == '+';
    });
    if (!good) {
      return Error(map, absl::StrCat("method '", name,
                                     "': expected a name of "
                                     "letters, digits, '_', '-' and '+'"));
    }
    if (map.IsNull()) return method;
    if (!map.IsMap()) return Error(map, "expected {a.b: value, ...}");
    map = YAML::Clone(map);
    if (map["stages"]) {
      GIMBAL_ASSIGN_OR_RETURN(method.stages, Numbers<int>(map["stages"], 1));
      map.remove("stages");
    }
    if (map["lr"]) {
      GIMBAL_ASSIGN_OR_RETURN(method.lrs, Texts(map["lr"]));
      map.remove("lr");
    }
    GIMBAL_ASSIGN_OR_RETURN(method.overrides, Overrides(map));
    return method;
  }

 private:
  const std::string path_;
};

absl::StatusOr<SweepSpec> ReadSpec(const Reader& reader,
                                   const YAML::Node& root) {
  GIMBAL_RETURN_IF_ERROR(reader.CheckKeys(
      root, {"config", "set", "methods", "stages", "lr", "seeds", "targets",
             "baseline", "workers", "jobs", "tuning"}));
  for (const char* key : {"config", "methods", "stages", "lr", "seeds"}) {
    if (!root[key]) {
      return reader.Error(root, absl::StrCat("the key '", key, "' is missing"));
    }
  }
  SweepSpec spec;
  spec.config = root["config"].as<std::string>("");
  if (root["set"]) {
    GIMBAL_ASSIGN_OR_RETURN(spec.overrides, reader.Overrides(root["set"]));
  }
  SweepMethod defaults;
  GIMBAL_ASSIGN_OR_RETURN(defaults.stages,
                          reader.Numbers<int>(root["stages"], 1));
  GIMBAL_ASSIGN_OR_RETURN(defaults.lrs, reader.Texts(root["lr"]));
  GIMBAL_ASSIGN_OR_RETURN(spec.seeds, reader.Texts(root["seeds"]));
  if (!root["methods"].IsMap() || root["methods"].size() == 0) {
    return reader.Error(root["methods"], "expected at least one method");
  }
  for (const auto& item : root["methods"]) {
    GIMBAL_ASSIGN_OR_RETURN(
        SweepMethod method,
        reader.Method(item.first.as<std::string>(), item.second, defaults));
    spec.methods.push_back(std::move(method));
  }
  if (root["targets"]) {
    GIMBAL_ASSIGN_OR_RETURN(spec.targets,
                            reader.Numbers<double>(root["targets"], 0.0));
  }
  for (const auto& [key, value] :
       {std::pair{"workers", &spec.workers}, std::pair{"jobs", &spec.jobs}}) {
    if (!root[key]) continue;
    GIMBAL_ASSIGN_OR_RETURN(const std::vector<int> numbers,
                            reader.Numbers<int>(root[key], 1));
    *value = numbers.front();
  }
  if (root["tuning"]) {
    const auto tuning = root["tuning"].as<std::string>("");
    if (tuning != "all" && tuning != "climb") {
      return reader.Error(root["tuning"], "expected 'all' or 'climb'");
    }
    spec.climb = tuning == "climb";
  }
  spec.baseline = spec.methods.front().name;
  if (root["baseline"]) spec.baseline = root["baseline"].as<std::string>("");
  const bool known = std::ranges::any_of(
      spec.methods,
      [&](const SweepMethod& method) { return method.name == spec.baseline; });
  if (!known) {
    return reader.Error(
        root["baseline"],
        absl::StrCat("'", spec.baseline, "' is none of the methods"));
  }
  return spec;
}

}  // namespace

absl::StatusOr<SweepSpec> ReadSweepSpec(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  try {
    return ReadSpec(Reader(path), YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ":", error.mark.line + 1, ": not valid YAML: ", error.msg));
  }
}

std::string RunName(const std::string& method, int stages,
                    const std::string& lr, const std::string& seed) {
  return absl::StrCat(method, "-P", stages, "-lr", lr, "-s", seed);
}

std::vector<SweepRun> RunsOf(const SweepSpec& spec) {
  std::vector<SweepRun> runs;
  for (const std::string& seed : spec.seeds) {
    for (const SweepMethod& method : spec.methods) {
      for (const int stages : method.stages) {
        for (const std::string& lr : method.lrs) {
          SweepRun run{.name = RunName(method.name, stages, lr, seed),
                       .method = method.name,
                       .stages = stages,
                       .lr = lr,
                       .seed = seed,
                       .overrides = spec.overrides};
          run.overrides.insert(run.overrides.end(), method.overrides.begin(),
                               method.overrides.end());
          run.overrides.push_back(absl::StrCat("pipeline.stages=", stages));
          run.overrides.push_back(absl::StrCat("optimizer.lr=", lr));
          run.overrides.push_back(absl::StrCat("run.seed=", seed));
          runs.push_back(std::move(run));
        }
      }
    }
  }
  return runs;
}

}  // namespace gimbal::cli
