// SPDX-License-Identifier: Apache-2.0
#include "emulator/device_file.h"

#include <fmt/format.h>

// Debian's library is built with exceptions, which Weir does not use, so only the headers are used.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>
#include <span>

#include "core/device/device_model.h"
#include "platform/files.h"

namespace weir::emulator {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kDevicesMax = 64;
constexpr std::size_t kNameCharsMax = 64;
/// The emulator handles each change of turns as an event, and could not keep up with shorter ones.
constexpr Duration kSliceMin = microseconds(10);

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kSizes[] = {{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
constexpr Unit kRates[] = {{"B/s", 1}, {"MB/s", 1e6}, {"GB/s", 1e9}};

/// Reads the values of one table of the file. The first fault is kept; values that are read after it are not used.
class Reader {
 public:
  Reader(const toml::table& table, const std::string& file, std::optional<Error>& fault)
      : table_(table), file_(file), fault_(fault) {}

  void Text(const char* key, std::string& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    if (const auto text = node->value_exact<std::string>())
      value = *text;
    else
      Complain(*node, fmt::format("'{}' is not a text", key));
  }
  void Number(const char* key, double& value, double min, double max) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const auto number = node->is_number() ? node->value<double>() : std::nullopt;
    if (!number)
      Complain(*node, fmt::format("'{}' is not a number", key));
    else if (!(*number >= min && *number <= max))
      Complain(*node, fmt::format("'{}' is {:g}: give {:g} to {:g}", key, *number, min, max));
    else
      value = *number;
  }
  void Whole(const char* key, std::uint32_t& value, double min, double max) {
    double number = value;
    Number(key, number, min, max);
    value = static_cast<std::uint32_t>(number);
    if (static_cast<double>(value) != number)
      Complain(*table_.get(key), fmt::format("'{}' is not a whole number", key));
  }
  void Flag(const char* key, bool& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    if (const auto flag = node->value_exact<bool>())
      value = *flag;
    else
      Complain(*node, fmt::format("'{}' is neither true nor false", key));
  }
  void Time(const char* key, Duration& value, Duration max) {
    double ns = static_cast<double>(value.count());
    Quantity(key, kTimes, "a time such as \"2 ms\"", ns, static_cast<double>(max.count()));
    value = Duration{static_cast<std::int64_t>(ns)};
  }
  /// A time that need not be a whole number of nanoseconds.
  void TimeNs(const char* key, double& ns, Duration max) {
    Quantity(key, kTimes, "a time such as \"0.5 ns\"", ns, static_cast<double>(max.count()));
  }
  void Size(const char* key, Bytes& value) {
    double bytes = static_cast<double>(value.count);
    Quantity(key, kSizes, "a size such as \"8 GiB\"", bytes, 0x1p50);
    value.count = static_cast<std::uint64_t>(bytes);
  }
  void Rate(const char* key, std::uint64_t& value) {
    double rate = static_cast<double>(value);
    Quantity(key, kRates, "a rate such as \"12 GB/s\"", rate, 1e15);
    value = static_cast<std::uint64_t>(rate);
  }
  template <typename Use>
  void Table(const char* key, Use use) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    if (!node->is_table()) return Complain(*node, fmt::format("'{}' is not a table", key));
    Reader reader(*node->as_table(), file_, fault_);
    use(reader);
    reader.End();
  }
  template <typename Use>
  void Each(const char* key, Use use) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_array_of_tables())
      return Complain(*node, fmt::format("'{}' is not a list of tables: write [[{}]]", key, key));
    for (const toml::node& one : *array) {
      Reader reader(*one.as_table(), file_, fault_);
      use(reader);
      reader.End();
    }
  }
  /// Reports keys that were not read as faults.
  void End() {
    for (const auto& [key, node] : table_)
      if (!taken_.contains(std::string(key.str()))) Complain(node, fmt::format("unknown key '{}'", key.str()));
  }
  void Complain(const toml::node& node, const std::string& why) {
    if (fault_) return;
    const toml::source_position at = node.source().begin;
    fault_ = Fail(Errc::kInvalidArgument, fmt::format("{}:{}:{}: {}", file_, at.line, at.column, why));
  }
  [[nodiscard]] const toml::table& table() const { return table_; }

 private:
  const toml::node* Take(const char* key) {
    taken_.insert(key);
    return table_.get(key);
  }
  void Quantity(const char* key, std::span<const Unit> units, const char* form, double& value, double max) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const auto text = node->value_exact<std::string>();
    if (!text) return Complain(*node, fmt::format("'{}' is not {}", key, form));
    double number = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    std::string_view unit(end, static_cast<std::size_t>(text->data() + text->size() - end));
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    for (const Unit& each : units) {
      if (error != std::errc() || each.name != unit) continue;
      if (!(number >= 0 && number * each.factor <= max))
        return Complain(*node, fmt::format("'{}' is out of range: \"{}\"", key, *text));
      value = number * each.factor;
      return;
    }
    Complain(*node, fmt::format("'{}' is not {}: \"{}\"", key, form, *text));
  }

  const toml::table& table_;
  const std::string& file_;
  std::optional<Error>& fault_;
  std::set<std::string> taken_;
};

void ReadModel(Reader& reader, core::DeviceConfig& model) {
  std::string arbitration = "fifo";
  reader.Text("arbitration", arbitration);
  if (arbitration == "fifo")
    model.arbitration = core::Arbitration::kFifo;
  else if (arbitration == "time-slice")
    model.arbitration = core::Arbitration::kTimeSlice;
  else if (arbitration == "concurrent")
    model.arbitration = core::Arbitration::kConcurrent;
  else
    reader.Complain(*reader.table().get("arbitration"), "'arbitration' is not one of: fifo, time-slice, concurrent");
  reader.Size("memory", model.memory);
  reader.Time("slice", model.slice, seconds(10));
  if (model.slice < kSliceMin) reader.Complain(*reader.table().get("slice"), "'slice' is less than 10 us");
  reader.Time("switch_cost", model.switch_cost, seconds(1));
  reader.Time("launch_overhead", model.launch_overhead, seconds(1));
  reader.Whole("units", model.units, 1, core::DeviceConfig::kUnitsMax);
  reader.Whole("queue_depth", model.queue_depth, 0, 1'000'000);
  reader.Table("link", [&](Reader& link) {
    link.Rate("in", model.in_bytes_per_s);
    link.Rate("out", model.out_bytes_per_s);
    link.Time("latency", model.link_latency, seconds(1));
  });
  reader.Table("clock", [&](Reader& clock) {
    double low = 1;
    clock.Time("idle", model.ramp.idle, seconds(3600));
    clock.Time("rise", model.ramp.rise, seconds(10));
    clock.Number("low", low, 0.01, 1);
    model.ramp.low_permille = static_cast<std::uint32_t>(low * 1000);
  });
}

/// Whether `text` has the form of `pattern`, in which each 'x' stands for a hexadecimal digit.
bool HasForm(std::string_view text, std::string_view pattern) {
  return std::ranges::equal(text, pattern, [](char c, char form) {
    return form == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == form;
  });
}

/// Drivers and the daemon find a device by its name, UUID and PCI address, and read them in these forms only.
void CheckIdentity(Reader& reader, const DeviceDescription& device) {
  const toml::table& table = reader.table();
  if (device.name.empty() || device.name.size() > kNameCharsMax)
    reader.Complain(*table.get("name"), fmt::format("'name' has 1 to {} characters", kNameCharsMax));
  else if (std::ranges::any_of(device.name, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    reader.Complain(*table.get("name"), "'name' has a control character");
  if (!device.uuid.empty() && !HasForm(device.uuid, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
    reader.Complain(*table.get("uuid"), "'uuid' is not as \"5c0e9d1a-0000-4000-8000-0123456789ab\"");
  if (!device.pci.empty() && !HasForm(device.pci, "xxxx:xx:xx.x"))
    reader.Complain(*table.get("pci"), "'pci' is not as \"0000:01:00.0\"");
}

void ReadDevice(Reader& reader, Emulated& emulated) {
  DeviceDescription device{.name = "Emulated card",
                           .uuid = {},
                           .pci = {},
                           .model = {.queue_depth = 1024, .memory = MiB(4096)},
                           .faults = {}};
  std::uint32_t count = 1;
  reader.Text("name", device.name);
  reader.Whole("count", count, 1, kDevicesMax);
  reader.Text("uuid", device.uuid);
  reader.Text("pci", device.pci);
  CheckIdentity(reader, device);
  reader.Number("refresh", device.refresh, 1, 1000);
  ReadModel(reader, device.model);
  if (count > 1 && !(device.uuid.empty() && device.pci.empty()))
    reader.Complain(reader.table(), "several devices in a row cannot have one 'uuid' or 'pci'");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t number = emulated.devices.size() + 1;
    emulated.devices.push_back(device);
    if (device.uuid.empty()) emulated.devices.back().uuid = fmt::format("00000000-0000-4000-8000-{:012x}", number);
    if (device.pci.empty()) emulated.devices.back().pci = fmt::format("0000:{:02x}:00.0", number);
  }
}

constexpr std::string_view kPatternCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*?";

void ReadKernel(Reader& reader, Emulated& emulated) {
  KernelCost cost;
  Duration fixed{-1};
  double per_item_ns = -1;
  reader.Text("name", cost.name);
  if (cost.name.empty() || cost.name.size() > kNameCharsMax ||
      cost.name.find_first_not_of(kPatternCharacters) != std::string::npos)
    reader.Complain(reader.table(),
                    fmt::format("a [[kernel]] needs a 'name': 1 to {} letters, digits, _, * and ?", kNameCharsMax));
  reader.Time("fixed", fixed, seconds(10));
  reader.TimeNs("per_item", per_item_ns, seconds(1));
  reader.Whole("units", cost.units, 0, core::DeviceConfig::kUnitsMax);
  reader.Flag("computed", cost.computed);
  if (fixed >= Duration{0} || per_item_ns >= 0) cost.fixed = std::max(fixed, Duration{0});
  cost.per_item_ns = std::max(per_item_ns, 0.0);
  if (!cost.computed && !cost.fixed)
    reader.Complain(reader.table(), "a kernel that is not computed needs 'fixed' or 'per_item'");
  emulated.kernels.push_back(std::move(cost));
}

struct FaultKind {
  std::string_view name;
  core::DeviceFault::Kind kind;
  bool has_span, has_count, has_extra;  // the keys 'for', 'count' and 'extra'
};
constexpr FaultKind kFaultKinds[] = {
    {"lost", core::DeviceFault::Kind::kLost, false, false, false},
    {"reset", core::DeviceFault::Kind::kReset, false, false, false},
    {"hang", core::DeviceFault::Kind::kHang, true, false, false},
    {"slow", core::DeviceFault::Kind::kSlow, false, true, true},
    {"no-memory", core::DeviceFault::Kind::kNoMemory, false, true, false},
    {"no-account", core::DeviceFault::Kind::kNoAccount, true, false, false},
};

const FaultKind* KindOf(Reader& reader) {
  std::string kind;
  reader.Text("kind", kind);
  for (const FaultKind& each : kFaultKinds)
    if (each.name == kind) return &each;
  std::string known;
  for (const FaultKind& each : kFaultKinds) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  const toml::node* node = reader.table().get("kind");
  reader.Complain(node != nullptr ? *node : reader.table(), "a [[fault]] needs a 'kind', one of: " + known);
  return nullptr;
}

void ReadFault(Reader& reader, Emulated& emulated, std::size_t& faults) {
  const FaultKind* kind = KindOf(reader);
  if (kind == nullptr) return;
  const toml::table& table = reader.table();
  core::DeviceFault fault{.kind = kind->kind};
  std::uint32_t device = 0, after = 0, count = 0;
  reader.Whole("device", device, 0, kDevicesMax - 1);
  reader.Whole("after", after, 0, 1e9);
  reader.Time("at", fault.at, seconds(1'000'000));
  if (table.contains("after")) fault.after = after;
  if (table.contains("after") == table.contains("at"))
    reader.Complain(table, "a [[fault]] needs one of 'after' and 'at', and not both");
  // A key that this kind of fault does not have is not read here, so End reports it as unknown.
  if (kind->has_span) reader.Time("for", fault.lasts, seconds(1'000'000));
  if (kind->has_count) reader.Whole("count", count, 1, 1e9);
  if (kind->has_extra) reader.Time("extra", fault.extra, core::DeviceModel::kWorkMax);
  if (kind->has_extra && fault.extra == Duration{})
    reader.Complain(table, fmt::format("a fault of the kind '{}' needs an 'extra' time", kind->name));
  if (table.contains("for") && kind->has_span && fault.lasts == Duration{})
    reader.Complain(*table.get("for"), "'for' is zero");
  fault.count = count;
  if (device < emulated.devices.size())
    emulated.devices[device].faults.push_back(fault);
  else
    reader.Complain(table, fmt::format("a fault of device {}: there is no such device; the first is 0", device));
  if (++faults > Emulated::kFaultsMax) reader.Complain(table, fmt::format("more than {} faults", Emulated::kFaultsMax));
}

}  // namespace

std::string_view NameOf(core::DeviceFault::Kind kind) {
  for (const FaultKind& each : kFaultKinds)
    if (each.kind == kind) return each.name;
  return "";
}

Result<Emulated> ReadDevices(std::string_view text, const std::string& file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return Fail(Errc::kInvalidArgument,
                fmt::format("{}:{}:{}: {}", file, at.line, at.column, parsed.error().description()));
  }
  std::optional<Error> fault;
  Emulated emulated;
  Reader reader(parsed.table(), file, fault);
  reader.Each("device", [&](Reader& one) { ReadDevice(one, emulated); });
  reader.Each("program", [&](Reader& one) {
    ProgramCost cost;
    Duration frame{-1};
    one.Text("name", cost.name);
    if (cost.name.empty()) one.Complain(one.table(), "a [[program]] needs a 'name'");
    one.Time("frame", frame, seconds(10));
    if (frame >= Duration{0}) cost.frame = frame;
    one.Flag("drawn", cost.drawn);
    if (!cost.drawn && !cost.frame) one.Complain(one.table(), "a program that is not drawn needs a 'frame'");
    emulated.programs.push_back(std::move(cost));
  });
  ProgramCost others{.name = "*", .frame = {}};
  reader.Table("frames", [&](Reader& frames) { frames.Number("factor", others.factor, 0, 1000); });
  emulated.programs.push_back(std::move(others));
  reader.Each("kernel", [&](Reader& one) { ReadKernel(one, emulated); });
  reader.Table("kernels", [&](Reader& kernels) { kernels.Number("factor", emulated.kernel_factor, 0, 1000); });
  std::size_t faults = 0;
  reader.Each("fault", [&](Reader& one) { ReadFault(one, emulated, faults); });
  if (emulated.kernels.size() > Emulated::kKernelsMax)
    reader.Complain(*parsed.table().get("kernel"),
                    fmt::format("{} kernels: at most {}", emulated.kernels.size(), Emulated::kKernelsMax));
  reader.End();
  if (!fault && emulated.devices.empty()) reader.Complain(parsed.table(), "no [[device]]");
  if (!fault && emulated.devices.size() > kDevicesMax)
    reader.Complain(parsed.table(), fmt::format("{} devices: at most {}", emulated.devices.size(), kDevicesMax));
  std::set<std::string> known;
  for (const DeviceDescription& device : emulated.devices)
    if (!known.insert(device.uuid).second || !known.insert(device.pci).second)
      reader.Complain(parsed.table(), "two devices have one 'uuid' or 'pci': " + device.uuid + ", " + device.pci);
  if (fault) return std::move(*fault);
  return emulated;
}

Result<Emulated> LoadDevices(const std::string& name, const std::vector<std::string>& folders) {
  std::vector<std::string> tried{name};
  if (name.find('/') == std::string::npos)
    for (const std::string& folder : folders) tried.push_back(fmt::format("{}/{}.toml", folder, name));
  for (const std::string& path : tried) {
    if (!std::filesystem::is_regular_file(path)) continue;
    WEIR_TRY(const std::string text, platform::ReadFile(path, kFileBytesMax));
    return ReadDevices(text, path);
  }
  return Fail(Errc::kNotFound, fmt::format("no device description '{}'; looked for {}", name, fmt::join(tried, ", ")));
}

std::vector<std::string> DescriptionFolders(const std::filesystem::path& program) {
  return {(program.parent_path() / "../share/weir/devices").lexically_normal(), WEIR_DEVICES_DIR};
}

bool Matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, after = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

const ProgramCost& CostOf(const std::vector<ProgramCost>& programs, std::string_view program) {
  for (const ProgramCost& each : programs)
    if (Matches(each.name, program)) return each;
  return programs.back();
}

}  // namespace weir::emulator
