// SPDX-License-Identifier: Apache-2.0
// weir keys init | token | list | revoke: access to this node's vGPUs from other machines (docs/network.md).
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <memory>

#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/common/views.h"
#include "cli/key_view.h"
#include "cli/options.h"
#include "net/keys.h"
#include "platform/files.h"

namespace weir::cli {
namespace {

using nlohmann::json;

struct KeyFlags {
  std::string dir, state_dir, name, vgpu, out, what, role{net::NameOf(net::TokenRole::kVgpu)};
  bool force = false;
  Duration valid_for = 30 * net::kDay;
};

/// The key folder of the running daemon; if none runs, that of a daemon with the default options. A private daemon
/// takes no tenants from other machines, and its state folder is temporary.
Result<std::string> KeyFolder(const Session& session, const KeyFlags& flags) {
  if (!flags.dir.empty()) return flags.dir;
  if (!flags.state_dir.empty()) return flags.state_dir + "/keys";
  const auto status = session.client().Get("/v1/status");
  if (status && status->value("private", json()) != true) {
    if (const std::string dir = TextField(*status, "keys_dir"); !dir.empty()) return dir;
  } else if (!status && (status.error().code != Errc::kUnavailable || session.places().socket_named)) {
    return Fail(status.error().code, status.error().message + "; --dir names a key folder without a daemon");
  }
  return platform::DefaultStateDir() + "/keys";
}

Result<std::string> MakeNamedKeys(const KeyFlags& flags) {
  std::string name = flags.name;
  if (name.empty()) {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    name = NodeNameFrom(host.data());
  }
  WEIR_TRY_STATUS(net::MakeNodeKeys(flags.dir, name));
  return name;
}

Result<int> InitKeys(const Session& session, const KeyFlags& flags) {
  WEIR_TRY(const std::string name, MakeNamedKeys(flags));
  if (session.json) return PrintJson({{"node", name}, {"dir", flags.dir}}), 0;
  fmt::print("made the keys of node '{}' in {}\n", name, flags.dir);
  return 0;
}

/// Checked before a token is recorded: the output is replaced atomically, which must not happen to a device, a pipe or
/// another token.
Status CheckOut(const std::string& out, bool force) {
  std::error_code error;
  const auto status = std::filesystem::status(out, error);
  if (!std::filesystem::exists(status)) return Ok();
  if (std::filesystem::is_regular_file(status)) {
    if (force) return Ok();
    return Fail(Errc::kAlreadyExists, fmt::format("--out: {} exists; --force replaces it", out));
  }
  return Fail(Errc::kInvalidArgument, fmt::format("--out: {} is not a file; without --out the token is printed", out));
}

/// Revokes the token if it can't be written, since it could not be used.
Status WriteToken(const KeyFlags& flags, const net::Token& token) {
  Status written = platform::WriteFileAtomically(flags.out, token.text);
  if (written) return written;
  Error error = std::move(written).error();
  const auto revoked = net::Revoke(flags.dir, token.record.serial);
  error.message += revoked ? "; the token is revoked" : "; the token is recorded, and 'weir keys revoke' revokes it";
  return error;
}

/// "vGPU 'game'", "the manager as tenant 'lab'".
std::string AccessOf(const net::TokenRecord& token) {
  const net::TokenHolder holder = net::HolderOf(token);
  if (holder.role == net::TokenRole::kVgpu) return fmt::format("vGPU '{}'", holder.name);
  return fmt::format("the manager as {} '{}'", NameOf(holder.role), holder.name);
}

Result<int> GiveToken(const Session& session, const KeyFlags& flags) {
  WEIR_TRY_STATUS(net::CheckKeyName(flags.vgpu));
  if (!flags.out.empty()) WEIR_TRY_STATUS(CheckOut(flags.out, flags.force));
  if (!net::HasNodeKeys(flags.dir)) {
    WEIR_TRY(const std::string name, MakeNamedKeys(flags));
    Say(fmt::format("made the keys of node '{}' in {}", name, flags.dir));
  }
  const net::TokenRole role = net::TokenRoleNamed(flags.role).value_or(net::TokenRole::kVgpu);
  WEIR_TRY(const net::Token token, net::MakeToken(flags.dir, flags.vgpu, flags.valid_for, role));
  if (!flags.out.empty()) WEIR_TRY_STATUS(WriteToken(flags, token));
  if (session.json) {
    json reply = TokensToJson({token.record}, std::time(nullptr))[0];
    reply[flags.out.empty() ? "token" : "file"] = flags.out.empty() ? token.text : flags.out;
    return PrintJson(reply), 0;
  }
  if (flags.out.empty())
    fmt::print("{}", token.text);
  else
    fmt::print("{}: gives access to {} until {}; recorded in {}\n", flags.out, AccessOf(token.record),
               net::TimeText(token.record.expires), flags.dir);
  return 0;
}

Result<int> ListKeys(const Session& session, const KeyFlags& flags) {
  WEIR_TRY(const std::vector<net::TokenRecord> tokens, net::ListTokens(flags.dir));
  const std::int64_t now = std::time(nullptr);
  if (session.json) return PrintJson({{"dir", flags.dir}, {"tokens", TokensToJson(tokens, now)}}), 0;
  fmt::print("{}", TokensText(tokens, flags.dir, now, StdoutTakesColor()));
  return 0;
}

Result<int> RevokeKeys(const Session& session, const KeyFlags& flags) {
  WEIR_TRY(std::vector<net::TokenRecord> revoked, net::Revoke(flags.dir, flags.what));
  for (net::TokenRecord& token : revoked) token.revoked = true;
  if (session.json) return PrintJson({{"revoked", TokensToJson(revoked, std::time(nullptr))}}), 0;
  if (revoked.empty()) fmt::print("{} was revoked before\n", flags.what);
  for (const net::TokenRecord& token : revoked) fmt::print("revoked {}: access to {}\n", token.serial, AccessOf(token));
  return 0;
}

}  // namespace

void AddKeys(Command app, Session& session) {
  const Command keys = AddCommandGroup(
      app, "keys", "Manage tokens: access to this node's vGPUs from other machines, or to a cluster's manager",
      "  weir keys token game --out game.token   # a tenant's; makes the node's keys too\n"
      "  weir keys list\n"
      "  weir keys revoke game\n");
  auto flags = std::make_shared<KeyFlags>();
  const auto add = [&](const char* name, const char* summary, const char* examples,
                       Result<int> (*act)(const Session&, const KeyFlags&)) {
    const Command command = AddCommand(keys, name, summary, examples, session);
    command.Add("--dir", "DIR", flags->dir,
                "The key folder (default: that of the running daemon, else keys in the state folder)");
    command.Add("--state-dir", "DIR", flags->state_dir, "The state folder of a daemon, which has the key folder in it");
    command.WhenGiven([flags, act, &session] {
      session.action = [flags, act, &session]() -> Result<int> {
        WEIR_TRY(flags->dir, KeyFolder(session, *flags));
        return act(session, *flags);
      };
    });
    return command;
  };
  const Command init = add("init", "Make the node's keys, unless they exist",
                           "  weir keys init\n  weir keys init --name gpu-1 --dir /etc/weir/keys\n", InitKeys);
  const Command token = add("token", "Make a token: the file that gives access to a vGPU, or to a cluster's manager",
                            "  weir keys token game --out game.token\n"
                            "  weir keys token lab --role tenant --dir manager-keys --out lab.token\n"
                            "  weir keys token game --for 12h > game.token && chmod 600 game.token\n",
                            GiveToken);
  for (const Command& command : {init, token})
    command.Add("--name", "NAME", flags->name, "The node's name, when its keys are made (default: the host's)");
  token.Add("name", "NAME", flags->vgpu, "Name of the vGPU, which need not exist yet, or of the holder").Required();
  token
      .Add("--role", "ROLE", flags->role,
           "What the holder is: tenant of the vGPU NAME of this node, or at the manager that has these keys its "
           "operator, a tenant, or the node NAME (default: vgpu)")
      .OneOf({net::kTokenRoleNames.begin(), net::kTokenRoleNames.end()});
  token.AddParsed("--for", "TIME", flags->valid_for, ParseDuration,
                  "How long it is good, as 30d or 12h (default: 30d)");
  token.Add("--out", "FILE", flags->out, "File to write, readable by its owner only (default: print it)");
  token.AddFlag("--force", flags->force, "Replace FILE if it exists");
  add("list", "List the tokens that were made", "  weir keys list\n  weir keys list --json\n", ListKeys);
  const Command revoke = add("revoke", "Take tokens back; connections that are open stay",
                             "  weir keys revoke game               # all of its tokens\n"
                             "  weir keys revoke 5c0e1f6a90b3d247   # one, by its serial\n",
                             RevokeKeys);
  revoke.Add("what", "NAME|SERIAL", flags->what, "A vGPU or ROLE:NAME, for all its tokens, or a token's serial number")
      .Required();
}

}  // namespace weir::cli
