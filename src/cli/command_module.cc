// SPDX-License-Identifier: Apache-2.0
// weir module register | list | run | rm: kernels of modules, on this node or through a manager (docs/modules.md).
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/common/places.h"
#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "http/client.h"
#include "http/tls/client.h"
#include "modules/kernel_profile.h"
#include "modules/module_client.h"
#include "modules/module_store.h"
#include "platform/files.h"

namespace weir::cli {
namespace {

using modules::ListOf;
using modules::ModuleClient;
using modules::NumberOf;
using modules::TextOf;
using nlohmann::json;

struct ModuleFlags {
  std::string managers, token, socket;
  std::string name, file, kernel, arguments, input, output, device, id, profile;
  std::optional<std::string> memory;
  Duration time_max = seconds(60);
};

/// The managers to use; empty: the request goes to this node.
std::string ManagersOf(const ModuleFlags& flags) {
  if (!flags.socket.empty()) return {};
  return flags.managers.empty() ? EnvironmentVariable("WEIR_MANAGER") : flags.managers;
}

Result<ModuleClient> ClientOf(const Session& session, const ModuleFlags& flags) {
  const std::string managers = ManagersOf(flags);
  if (managers.empty())
    return ModuleClient::OfNode(flags.socket.empty() ? session.places().run_dir + "/modules.sock" : flags.socket);
  WEIR_TRY(auto list, ModuleClient::ParseManagers(managers));
  http::tls::Access access;
  const std::string file = flags.token.empty() ? EnvironmentVariable("WEIR_MANAGER_TOKEN") : flags.token;
  if (!file.empty()) {
    WEIR_TRY(access, http::tls::ReadAccess(file));
  }
  return ModuleClient::OfManagers(std::move(list), std::move(access));
}

std::string ModuleTarget(const std::string& name) { return "/v1/modules/" + http::PercentEncode(name); }

/// `none`: the text to print if there are no modules.
void PrintModules(const json& modules, const std::string& none = {}) {
  Table table({{"MODULE"}, {"KERNEL"}, {"BLOB"}, {"WHAT IT DOES"}});
  for (const json& module : modules)
    for (const json& kernel : ListOf(module, "kernels"))
      table.Add({{TextOf(module, "module")},
                 {TextOf(kernel, "name"), Style::kStrong},
                 {TextOf(module, "blob").substr(0, 12), Style::kFaint},
                 {TextOf(kernel, "summary")}});
  fmt::print("{}", table.empty() ? none + "\n" : table.Render(StdoutTakesColor()));
}

void SayWhenItTriesAgain(ModuleClient& client) {
  client.OnPatience([](const Error& why, Duration patience) {
    fmt::print(stderr, "weir: {}; trying again for {:.0f} s\n", why.message, SecondsOf(patience));
  });
}

Result<int> Register(const Session& session, const ModuleFlags& flags) {
  WEIR_TRY(ModuleClient client, ClientOf(session, flags));
  SayWhenItTriesAgain(client);
  WEIR_TRY(const std::string bytes, platform::ReadFile(flags.file, modules::ModuleStore::kBlobBytesMax));
  WEIR_TRY_STATUS(client.Ask("GET", "/v1/modules"));  // fails at once without a service, for which PutBlob would wait
  WEIR_TRY(const std::string blob, client.PutBlob(bytes));
  WEIR_TRY(const json module, client.Ask("PUT", ModuleTarget(flags.name), json{{"blob", blob}}.dump()));
  if (session.json) return PrintJson(module), 0;
  PrintModules(json::array({module}));
  return 0;
}

Result<int> List(const Session& session, const ModuleFlags& flags) {
  WEIR_TRY(ModuleClient client, ClientOf(session, flags));
  WEIR_TRY(const json reply, client.Ask("GET", "/v1/modules"));
  if (session.json) return PrintJson(reply), 0;
  const std::string managers = ManagersOf(flags);
  PrintModules(ListOf(reply, "modules"),
               managers.empty() ? "no module is registered on this node; --manager asks the managers of a cluster"
                                : "no module is registered with the manager " + managers);
  return 0;
}

Result<int> RemoveModule(const Session& session, const ModuleFlags& flags) {
  WEIR_TRY(ModuleClient client, ClientOf(session, flags));
  WEIR_TRY(const json reply, client.Ask("DELETE", ModuleTarget(flags.name)));
  if (session.json) return PrintJson(reply), 0;
  fmt::print("removed module '{}'; runs that wait or run continue\n", flags.name);
  return 0;
}

Status WriteOutput(ModuleClient& client, const json& run, const std::string& file) {
  const std::string blob = TextOf(run, "output");
  std::string bytes;
  if (!blob.empty()) {
    WEIR_TRY(bytes, client.GetBlob(blob));
  }
  if (file != "-") return platform::WriteFileAtomically(file, bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && std::fflush(stdout) == 0) return Ok();
  return Fail(Errc::kIo, "the output can't be written");
}

/// The profile's needs of exactly this run, for the module version that was measured.
Result<json> NeedOfProfile(ModuleClient& client, const ModuleFlags& flags) {
  WEIR_TRY(const std::string text, platform::ReadFile(flags.profile, modules::KernelProfile::kFileBytesMax));
  const auto in_file = [&](const Error& why) { return Fail(why.code, flags.profile + ": " + why.message); };
  const auto profile = modules::ProfileFrom(text);
  if (!profile) return in_file(profile.error());
  if (!flags.input.empty())
    return in_file(Fail(Errc::kNotFound, "a profile describes runs without input: omit --profile or --input"));
  const auto entry = modules::EntryFor(*profile, {flags.name, flags.kernel, flags.arguments});
  if (!entry) return in_file(entry.error());
  WEIR_TRY(const json module, client.AskUntil("GET", ModuleTarget(flags.name)));
  if (const std::string blob = TextOf(module, "blob"); blob != entry->blob)
    return in_file(Fail(Errc::kVersionMismatch,
                        fmt::format("module '{}' differs from the measured one ({:.12} then, {:.12} now): measure it "
                                    "again, or omit --profile",
                                    flags.name, entry->blob, blob)));
  return json(modules::NeedOf(*entry));
}

Result<int> RunKernel(const Session& session, const ModuleFlags& flags) {
  WEIR_TRY(ModuleClient client, ClientOf(session, flags));
  SayWhenItTriesAgain(client);
  json body{{"module", flags.name}, {"kernel", flags.kernel}, {"seconds_max", SecondsOf(flags.time_max)}};
  if (!flags.arguments.empty()) body["arguments"] = flags.arguments;
  if (!flags.device.empty()) body["device"] = flags.device;
  if (!flags.profile.empty()) {
    WEIR_TRY(body["need"], NeedOfProfile(client, flags));
  }
  if (flags.memory) {
    WEIR_TRY(const Bytes memory, ParseBytes(*flags.memory));
    body["need"]["memory_bytes"] = memory.count;
  }
  if (!flags.input.empty()) {
    WEIR_TRY(const std::string bytes, platform::ReadFile(flags.input, modules::ModuleStore::kBlobBytesMax));
    WEIR_TRY(body["input"], client.PutBlob(bytes));
  }
  std::string id = flags.id;
  if (id.empty()) {
    WEIR_TRY(id, modules::DrawRunId());
  }
  const std::string asked = body.dump(-1, ' ', false, json::error_handler_t::replace);
  WEIR_TRY(json run, client.AskUntil("PUT", "/v1/runs/" + http::PercentEncode(id), asked));
  if (!modules::IsOver(run)) {
    WEIR_TRY(run, client.WaitForEnd(id, asked, seconds(1'000'000'000)));
  }
  const bool done = TextOf(run, "state") == "done";
  if (done && !flags.output.empty()) WEIR_TRY_STATUS(WriteOutput(client, run, flags.output));
  // The service keeps a run until it is deleted. With --id, the user decides when to delete it.
  if (flags.id.empty()) (void)client.Ask("DELETE", "/v1/runs/" + http::PercentEncode(id));
  if (session.json && flags.output != "-") PrintJson(run);
  if (!session.json)
    for (const std::string& line : SplitList(TextOf(run, "text"), '\n'))
      if (!line.empty()) fmt::print(flags.output == "-" ? stderr : stdout, "{}\n", Printable(line));
  if (!done) return modules::ErrorOfRun(run);
  if (!session.json && flags.output != "-")
    fmt::print("done in {:.3g} s on {}, beside {:.1f} others{}\n", NumberOf(run, "seconds"), TextOf(run, "device"),
               NumberOf(run, "ran_beside"),
               NumberOf(run, "attempt") > 1 ? fmt::format(", attempt {}", NumberOf(run, "attempt")) : "");
  return 0;
}

}  // namespace

void AddModule(Command app, Session& session) {
  const Command group =
      AddCommandGroup(app, "module", "Run kernels of shared objects on devices, on demand",
                      "  weir serve --modules kernels &             # on a node with 'weir vgpu create kernels'\n"
                      "  weir module register sort sorting_network.so\n"
                      "  weir module run sort sorting-network --args n=65536\n"
                      "  weir module rm sort\n");
  auto flags = std::make_shared<ModuleFlags>();
  const auto add = [&](const char* name, const char* summary, const char* examples,
                       Result<int> (*act)(const Session&, const ModuleFlags&)) {
    const Command command = AddCommand(group, name, summary, examples, session);
    const Option managers = command.Add("--manager", "HOST:PORT[,...]", flags->managers,
                                        "Ask these managers, not this node (default: $WEIR_MANAGER)");
    command.Add("--token", "FILE", flags->token,
                "With --manager: your token; register and rm need an operator's (default: $WEIR_MANAGER_TOKEN)");
    command
        .Add("--modules-socket", "PATH", flags->socket,
             "This node's weir-modules (default: modules.sock of the run folder)")
        .Excludes(managers);
    command.WhenGiven(
        [flags, act, &session] { session.action = [flags, act, &session] { return act(session, *flags); }; });
    return command;
  };
  const Command enter =
      add("register", "Register a module under a name; a new module of that name is used for later runs",
          "  weir module register sort build/sorting_network.so\n"
          "  weir module register sort sort.so --manager m1:7710,m2:7710 --token me.token    # an operator's\n",
          Register);
  add("list", "List the modules and their kernels", "  weir module list\n  weir --json module list\n", List);
  const Command run = add(
      "run", "Run a kernel and wait for its end",
      "  weir module run sort sorting-network --args n=1048576\n"
      "  weir module run sort sorting-network --input keys.bin --output sorted.bin\n"
      "  weir module run sort sorting-network --seconds-max 5 --device device0\n"
      "  weir module run sort sorting-network --args n=65536 --profile lab.profile    # of 'weir profile --output'\n"
      "\n"
      "EXIT CODES\n"
      "  0 on success; 70 when the kernel failed or its module crashed, 11 when it exceeded its time limit, 7\n"
      "  when no device has enough memory; the others of 'weir --help'.\n",
      RunKernel);
  const Command remove =
      add("rm", "Remove a module; runs that wait or run continue", "  weir module rm sort\n", RemoveModule);
  for (const Command& command : {enter, run, remove})
    command.Add("module", "MODULE", flags->name, "The module's name").Required();
  enter.Add("file", "FILE", flags->file, "A shared object (include/weir/module.h)").Required();
  run.Add("kernel", "KERNEL", flags->kernel, "One of its kernels").Required();
  run.Add("--args", "TEXT", flags->arguments, "Arguments of the kernel");
  run.Add("--input", "FILE", flags->input, "Bytes for the kernel, 64 MiB at most");
  run.Add("--output", "FILE", flags->output, "File for its output; - is standard output");
  run.Add("--device", "NAME", flags->device, "On this device, and no other");
  run.Add("--memory", "SIZE", flags->memory,
          "Device memory that it needs, as 512M (default: the module's declaration)");
  run.Add("--profile", "FILE", flags->profile,
          "Place it by the measurements of 'weir profile' for this kernel and arguments; the placement learns from it");
  run.AddParsed("--seconds-max", "TIME", flags->time_max, ParseDuration, "Time limit of the run (default: 60 s)");
  run.Add(
      "--id", "ID", flags->id,
      "The run's id; a second start with this id returns the same run (default: a new id, forgotten after the run)");
}

}  // namespace weir::cli
