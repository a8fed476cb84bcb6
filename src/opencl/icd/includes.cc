// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/includes.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

namespace weir::opencl::icd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr int kFolderDepthMax = 3;

struct Word {
  std::string raw, text;  // as given; without quotes
};

std::vector<Word> Words(std::string_view options) {
  std::vector<Word> words;
  std::size_t at = 0;
  while ((at = options.find_first_not_of(kBlanks, at)) != std::string_view::npos) {
    Word word;
    char quote = 0;
    for (; at < options.size(); ++at) {
      const char c = options[at];
      if (quote == 0 && kBlanks.find(c) != std::string_view::npos) break;
      word.raw += c;
      if (c == '\\' && at + 1 < options.size() && quote != '\'') {
        word.raw += options[++at];
        word.text += options[at];
      } else if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        word.text += c;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::optional<std::string> ReadWhole(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kIncludedBytesMax || error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The name under which the compiler finds the file, in an include folder or beside the source.
std::string Relative(const std::string& name) {
  std::string path = fs::path(name).lexically_normal().string();
  path.erase(0, path.find_first_not_of('/'));
  return path == ".." || path == "." ? std::string() : path;
}

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

struct Directive {
  std::string name;
  std::size_t at = 0;  // position of the name's first character in the text
  enum class Form { kQuoted, kAngled, kMacro } form = Form::kMacro;
};

std::size_t At(std::string_view part, std::string_view text) {
  return static_cast<std::size_t>(part.data() - text.data());
}

/// All #include lines, including those in inactive conditional blocks.
std::vector<Directive> Directives(std::string_view text) {
  std::vector<Directive> found;
  for (std::size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at + 1)) {
    std::string_view rest = text.substr(at + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (!rest.starts_with("include")) continue;
    rest.remove_prefix(7);
    std::string_view line = rest.substr(0, rest.find('\n'));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) continue;
    const char close = line[0] == '"' ? '"' : line[0] == '<' ? '>' : '\0';
    if (close == 0) {
      found.push_back({std::string(line), At(line, text), Directive::Form::kMacro});
      continue;
    }
    const std::size_t end = line.find(close, 1);
    if (end == std::string_view::npos || end == 1) continue;
    const std::string_view name = line.substr(1, end - 1);
    found.push_back(
        {std::string(name), At(name, text), close == '"' ? Directive::Form::kQuoted : Directive::Form::kAngled});
  }
  return found;
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The paths in the argument of an #include after the folder macros are expanded.
std::vector<std::string> PathsIn(const std::string& argument, const std::map<std::string, std::string>& macros) {
  std::string put_in;
  for (std::size_t at = 0; at < argument.size();) {
    std::size_t end = at;
    while (end < argument.size() && IsNameChar(argument[end])) ++end;
    if (end == at) {
      put_in += argument[at++];
      continue;
    }
    const auto macro = macros.find(argument.substr(at, end - at));
    put_in += macro == macros.end() ? argument.substr(at, end - at) : macro->second;
    at = end;
  }
  std::vector<std::string> paths;
  std::string path;
  for (const char c : put_in + ' ') {
    if (IsNameChar(c) || c == '/' || c == '.' || c == '-' || c == '+') {
      path += c;
    } else {
      if (path.find('.') != std::string::npos) paths.push_back(path);
      path.clear();
    }
  }
  return paths;
}

bool LooksLikeHeader(const fs::path& path) {
  constexpr std::array<std::string_view, 7> kEndings{".h", ".hh", ".hpp", ".cl", ".clh", ".inc", ".inl"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

class Search {
 public:
  explicit Search(const BuildOptions& options) : options_(options) {}

  std::map<std::string, std::string> From(std::string_view source) {
    Scan(source, {}, {});
    while (!todo_.empty()) {
      const File file = std::move(todo_.front());
      todo_.pop_front();
      Scan(found_.at(file.name), file.name, file.path);
    }
    if (guessed_all_)
      for (const std::string& folder : options_.folders) TakeAll(folder);
    for (auto& [name, content] : found_) content = WithRelativeIncludes(content);
    return std::move(found_);
  }

 private:
  struct File {
    std::string name, path;
  };

  void Scan(std::string text, const std::string& name, const std::string& path) {
    for (const Directive& directive : Directives(text)) {
      if (directive.form == Directive::Form::kMacro) {
        bool any = false;
        for (const std::string& guess : PathsIn(directive.name, options_.folder_macros))
          any = Include(guess, false, name, path) || any;
        guessed_all_ = guessed_all_ || !any;
      } else {
        Include(directive.name, directive.form == Directive::Form::kQuoted, name, path);
      }
    }
  }
  void Scan(std::string_view text, const std::string& name, const std::string& path) {
    Scan(std::string(text), name, path);
  }

  bool Include(const std::string& wanted, bool quoted, const std::string& by_name, const std::string& by_path) {
    if (wanted.starts_with('/')) return Take(Relative(wanted), wanted);
    if (quoted && !by_path.empty()) {
      const std::string beside = FolderOf(by_path) + "/" + wanted;
      const std::string folder = FolderOf(by_name);
      const std::string name = Relative(folder.empty() ? wanted : folder + "/" + wanted);
      if (Take(name, beside)) {
        // A compiler without include folders looks it up by the name in the directive.
        if (const std::string plain = Relative(wanted); plain != name) Take(plain, beside);
        return true;
      }
    }
    for (const std::string& folder : options_.folders)
      if (Take(Relative(wanted), folder + "/" + wanted)) return true;
    // Last resort: relative to the program's working folder
    return quoted && by_path.empty() && Take(Relative(wanted), wanted);
  }

  /// True: the file was found, now or before.
  bool Take(const std::string& name, const std::string& path) {
    if (name.empty()) return false;
    if (const auto known = paths_.find(name); known != paths_.end()) return true;
    if (found_.size() >= kIncludedFilesMax) return false;
    auto content = ReadWhole(path);
    if (!content || bytes_ + content->size() > kIncludedBytesMax) return false;
    bytes_ += content->size();
    found_.emplace(name, std::move(*content));
    paths_.emplace(name, path);
    todo_.push_back({name, path});
    return true;
  }

  void TakeAll(const std::string& folder) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      if (at.depth() >= kFolderDepthMax) at.disable_recursion_pending();
      if (LooksLikeHeader(at->path()))
        Take(Relative(at->path().lexically_relative(folder).string()), at->path().string());
    }
  }

  const BuildOptions& options_;
  std::map<std::string, std::string> found_, paths_;
  std::deque<File> todo_;
  std::size_t bytes_ = 0;
  bool guessed_all_ = false;
};

}  // namespace

BuildOptions ReadBuildOptions(std::string_view options) {
  BuildOptions result;
  const std::vector<Word> words = Words(options);
  const auto add = [&result](const std::string& raw) {
    result.text.append(result.text.empty() ? "" : " ").append(raw);
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Word& word = words[i];
    if (word.text.starts_with("-I")) {
      std::string folder = word.text.substr(2);
      if (folder.empty() && i + 1 < words.size()) folder = words[++i].text;
      if (!folder.empty()) result.folders.push_back(folder);
      continue;
    }
    if (word.text.starts_with("-D")) {
      const bool apart = word.text.size() == 2 && i + 1 < words.size();
      const std::string& definition = apart ? words[i + 1].text : word.text;
      const std::size_t name = apart ? 0 : 2, equals = definition.find('=');
      const std::string value = equals == std::string::npos ? std::string() : definition.substr(equals + 1);
      if (value.starts_with('/') && value.size() > 1 && IsFolder(value)) {
        std::string macro = definition.substr(name, equals - name);
        add("-D " + macro + "=" + Relative(value));
        result.folder_macros.emplace(std::move(macro), value);
        if (apart) ++i;
        continue;
      }
      if (apart) {
        add(word.raw + " " + words[++i].raw);
        continue;
      }
    }
    result.arg_info = result.arg_info || word.text == "-cl-kernel-arg-info";
    add(word.raw);
  }
  return result;
}

std::string WithRelativeIncludes(std::string_view source) {
  std::string result(source);
  const std::vector<Directive> all = Directives(source);
  for (auto directive = all.rbegin(); directive != all.rend(); ++directive)
    if (directive->form != Directive::Form::kMacro && directive->name.starts_with('/'))
      result.replace(directive->at, directive->name.size(), Relative(directive->name));
  return result;
}

std::map<std::string, std::string> FindIncludedFiles(std::string_view source, const BuildOptions& options) {
  if (source.find("include") == std::string_view::npos) return {};
  return Search(options).From(source);
}

}  // namespace weir::opencl::icd
