// SPDX-License-Identifier: Apache-2.0
#include "net/keys.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <set>
#include <thread>

#include "net/tls.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/tls_pair.h"

namespace weir::net {
namespace {

namespace fs = std::filesystem;

using weir::testing::CodeOf;
using weir::testing::NodeKeys;
using weir::testing::TempFolder;

unsigned ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

std::string TextOf(const std::string& path) {
  auto text = platform::ReadFile(path, 1 << 20);
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

void ExpectError(const Error& error, Errc code, const std::string& words) {
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message << "\n  lacks: " << words;
}

TEST(NodeKeys, AreTheirOwnersAlone) {
  const TempFolder folder;
  const std::string dir = folder / "state/keys";
  ASSERT_TRUE(MakeNodeKeys(dir, "lab"));
  EXPECT_EQ(ModeOf(dir), 0700u);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    files.insert(entry.path().filename());
    EXPECT_EQ(ModeOf(entry.path()), 0600u) << entry.path();
  }
  EXPECT_EQ(files, (std::set<std::string>{"ca.key", "ca.pem", "node.key", "node.pem", "revoked", "tokens"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "state"), fs::directory_iterator()), 1);
  const auto node = TlsIdentity::OfNode(dir);
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(node->name(), "lab");
  EXPECT_GT(node->expires(), std::time(nullptr) + 19 * 365 * 86'400LL);
}

TEST(NodeKeys, AreNeverOverwritten) {
  const TempFolder folder;
  const std::string dir = folder / "keys";
  fs::create_directory(dir);
  ASSERT_TRUE(MakeNodeKeys(dir + "/", "lab")) << "an empty folder is as good as none";
  const std::string before = TextOf(dir + "/ca.key");
  ExpectError(MakeNodeKeys(dir, "lab").error(), Errc::kAlreadyExists, dir);
  EXPECT_EQ(TextOf(dir + "/ca.key"), before);
  ASSERT_TRUE(platform::WriteFileAtomically(folder / "file", "x"));
  ExpectError(MakeNodeKeys(folder / "file", "lab").error(), Errc::kAlreadyExists, "exists already");
  EXPECT_EQ(TextOf(folder / "file"), "x");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2) << "nothing half made";
}

TEST(NodeKeys, ConcurrentCreationGivesOneSetOfKeys) {
  const TempFolder folder;
  std::atomic<int> made{0};
  {
    std::vector<std::jthread> makers;
    for (int i = 0; i < 4; ++i)
      makers.emplace_back([&] {
        const Status status = MakeNodeKeys(folder / "keys", "lab");
        made += status ? 1 : 0;
        EXPECT_TRUE(status || status.error().code == Errc::kAlreadyExists) << status.error().message;
      });
  }
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(TlsIdentity::OfNode(folder / "keys"));
}

TEST(NodeKeys, AreCompleteOrAbsentOnAFullDisk) {
  const TempFolder folder;
  weir::testing::Child child([&] {
    const rlimit limit{100, 100};
    std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Status status = MakeNodeKeys(folder / "keys", "lab");
    return !status && status.error().code == Errc::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(NodeKeys, AcceptTheDaemonsVgpuNames) {
  for (const char* good : {"a", "game-1", "A.b_c", "0"}) EXPECT_TRUE(CheckKeyName(good)) << good;
  const std::string longest(63, 'x'), too_long(64, 'x');
  EXPECT_TRUE(CheckKeyName(longest));
  const NodeKeys keys;
  for (const std::string& bad :
       std::vector<std::string>{"", ".hidden", "-x", "a/b", "a b", "a\n", "ü", "a\x1b[2J", too_long}) {
    EXPECT_EQ(CodeOf(CheckKeyName(bad)), Errc::kInvalidArgument) << bad;
    EXPECT_EQ(CodeOf(MakeToken(keys.dir(), bad, kDay)), Errc::kInvalidArgument) << bad;
    EXPECT_EQ(CodeOf(MakeNodeKeys(keys.dir() + "2", bad)), Errc::kInvalidArgument) << bad;
  }
}

TEST(Tokens, AreOneFileWithVgpuAndExpiry) {
  const NodeKeys keys;
  const std::int64_t begin = std::time(nullptr);
  const auto token = MakeToken(keys.dir(), "render", 30 * kDay);
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->record.name, "render");
  EXPECT_NEAR(token->record.expires, begin + 30 * 86'400, 60);
  for (const std::string& part :
       {std::string("# vGPU:    render\n"), "# expires: " + TimeText(token->record.expires),
        "# serial:  " + token->record.serial, std::string("BEGIN CERTIFICATE"), std::string("BEGIN PRIVATE KEY")})
    EXPECT_NE(token->text.find(part), std::string::npos) << part;
  const auto tenant = TlsIdentity::OfToken(keys.File("render.token", token->text));
  ASSERT_TRUE(tenant) << tenant.error().message;
  EXPECT_EQ(tenant->name(), "render");
  EXPECT_EQ(tenant->expires(), token->record.expires);
}

TEST(Tokens, OfAManagerAreRecordedWithTheirRole) {
  const NodeKeys keys;
  for (const TokenRole role : {TokenRole::kOperator, TokenRole::kTenant, TokenRole::kNode}) {
    const auto token = MakeToken(keys.dir(), "lab", kDay, role);
    ASSERT_TRUE(token) << token.error().message;
    EXPECT_EQ(token->record.name, std::string(NameOf(role)) + ":lab");
    EXPECT_NE(token->text.find("# " + std::string(NameOf(role)) + ": lab\n"), std::string::npos) << token->text;
  }
  ASSERT_TRUE(MakeToken(keys.dir(), "lab", kDay)) << "a vGPU of that name has a token of its own";
  EXPECT_EQ(Revoke(keys.dir(), "tenant:lab").value().size(), 1U);
  std::vector<std::string> good;
  const auto records = ListTokens(keys.dir());
  ASSERT_TRUE(records) << records.error().message;
  for (const TokenRecord& record : *records)
    if (!record.revoked) good.push_back(record.name);
  EXPECT_EQ(good, (std::vector<std::string>{"operator:lab", "node:lab", "lab"}));
  EXPECT_EQ(TokenRoleNamed("tenant"), TokenRole::kTenant);
  EXPECT_EQ(TokenRoleNamed("king"), std::nullopt);
}

TEST(Tokens, HaveABoundedLife) {
  const NodeKeys keys;
  EXPECT_EQ(CodeOf(MakeToken(keys.dir(), "a", Duration::zero())), Errc::kInvalidArgument);
  EXPECT_EQ(CodeOf(MakeToken(keys.dir(), "a", -kDay)), Errc::kInvalidArgument);
  ExpectError(MakeToken(keys.dir(), "a", 30 * 365 * kDay).error(), Errc::kInvalidArgument, "can't outlive");
  EXPECT_TRUE(ListTokens(keys.dir())->empty());
}

TEST(Tokens, AreRecordedAndCanBeRevoked) {
  const NodeKeys keys;
  std::vector<std::string> serials;
  for (const char* vgpu : {"render", "render", "other"}) {
    auto token = MakeToken(keys.dir(), vgpu, kDay);
    ASSERT_TRUE(token) << token.error().message;
    serials.push_back(token->record.serial);
  }
  EXPECT_EQ(std::set(serials.begin(), serials.end()).size(), 3u);
  auto revoked = Revoke(keys.dir(), serials[1]);
  ASSERT_TRUE(revoked) << revoked.error().message;
  ASSERT_EQ(revoked->size(), 1u);
  EXPECT_EQ(revoked->front().name, "render");
  revoked = Revoke(keys.dir(), "render");
  ASSERT_TRUE(revoked);
  ASSERT_EQ(revoked->size(), 1u) << "the other one was already";
  EXPECT_EQ(revoked->front().serial, serials[0]);
  EXPECT_TRUE(Revoke(keys.dir(), "render")->empty());
  const auto tokens = ListTokens(keys.dir());
  ASSERT_TRUE(tokens) << tokens.error().message;
  ASSERT_EQ(tokens->size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*tokens)[i].serial, serials[i]);
    EXPECT_EQ((*tokens)[i].revoked, i < 2);
  }
  ExpectError(Revoke(keys.dir(), "nobody").error(), Errc::kNotFound, "weir keys list");
  // A serial without a record in this folder, as after restoring a backup.
  EXPECT_EQ(Revoke(keys.dir(), "4123456789abcdef")->size(), 1u);
  EXPECT_TRUE(Revoke(keys.dir(), "4123456789abcdef")->empty());
}

TEST(Tokens, MadeConcurrentlyAreAllRecorded) {
  const NodeKeys keys;
  {
    std::vector<std::jthread> makers;
    for (int i = 0; i < 4; ++i)
      makers.emplace_back([&] {
        for (int j = 0; j < 5; ++j) EXPECT_TRUE(MakeToken(keys.dir(), "render", kDay));
      });
  }
  EXPECT_EQ(ListTokens(keys.dir())->size(), 20u);
}

TEST(Tokens, AreNotMadeWhenTheyCannotBeRecorded) {
  const NodeKeys keys;
  ASSERT_TRUE(MakeToken(keys.dir(), "render", kDay));
  const std::string before = TextOf(keys.dir() + "/tokens");
  weir::testing::Child child([&] {
    const rlimit limit{60, 60};  // room for one line but not for two
    std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto token = MakeToken(keys.dir(), "render", kDay);
    return !token && token.error().code == Errc::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(TextOf(keys.dir() + "/tokens"), before);
  EXPECT_TRUE(MakeToken(keys.dir(), "render", kDay));
}

TEST(Tokens, AreNotMadeWhenTheRecordIsFull) {
  const NodeKeys keys;
  const std::string full((16 << 20) - 10, '\n');
  ASSERT_TRUE(platform::WriteFileAtomically(keys.dir() + "/tokens", full));
  ExpectError(MakeToken(keys.dir(), "render", kDay).error(), Errc::kResourceExhausted, "is full");
  EXPECT_EQ(fs::file_size(keys.dir() + "/tokens"), full.size());
}

TEST(Tokens, NeedTheNodesKeysAndACompleteRecord) {
  const TempFolder folder;
  ExpectError(MakeToken(folder.path(), "a", kDay).error(), Errc::kNotFound, "weir keys init");
  ExpectError(TlsIdentity::OfNode(folder.path()).error(), Errc::kNotFound, "weir keys init");
  const NodeKeys keys;
  ASSERT_TRUE(MakeToken(keys.dir(), "a", kDay));
  const std::string line = TextOf(keys.dir() + "/tokens");
  for (const std::string& damaged : {line.substr(0, 20), line + "\n", line + "what is this\n", line.substr(1)}) {
    ASSERT_TRUE(platform::WriteFileAtomically(keys.dir() + "/tokens", damaged));
    ExpectError(ListTokens(keys.dir()).error(), Errc::kProtocol, keys.dir() + "/tokens");
  }
}

TEST(KeyFiles, ThatOthersCanReadAreNotUsed) {
  const NodeKeys keys;
  const std::string token = keys.TokenFile("render");
  for (const auto mode : {0640, 0604, 0644}) {
    ASSERT_EQ(::chmod(token.c_str(), mode), 0);
    ExpectError(TlsIdentity::OfToken(token).error(), Errc::kPermissionDenied, "chmod 600 " + token);
    ASSERT_EQ(::chmod((keys.dir() + "/node.key").c_str(), mode), 0);
    ExpectError(TlsIdentity::OfNode(keys.dir()).error(), Errc::kPermissionDenied,
                "chmod 600 " + keys.dir() + "/node.key");
    ASSERT_EQ(::chmod((keys.dir() + "/ca.key").c_str(), mode), 0);
    ExpectError(MakeToken(keys.dir(), "a", kDay).error(), Errc::kPermissionDenied,
                "chmod 600 " + keys.dir() + "/ca.key");
  }
  for (const char* name : {"/node.key", "/ca.key"}) ASSERT_EQ(::chmod((keys.dir() + name).c_str(), 0600), 0);
  ASSERT_EQ(::chmod((keys.dir() + "/ca.pem").c_str(), 0644), 0);
  EXPECT_TRUE(TlsIdentity::OfNode(keys.dir())) << "a certificate may be read by others";
  ASSERT_EQ(::chmod((keys.dir() + "/ca.pem").c_str(), 0666), 0);
  ExpectError(TlsIdentity::OfNode(keys.dir()).error(), Errc::kPermissionDenied, "can be changed by other users");
}

TEST(KeyFiles, ThatAreTruncatedAreReported) {
  const NodeKeys keys;
  const std::string token = TextOf(keys.TokenFile("render"));
  for (std::size_t size = 0; size + 28 < token.size(); size += 61) {
    const auto cut = TlsIdentity::OfToken(keys.File("cut.token", token.substr(0, size)));
    ASSERT_EQ(CodeOf(cut), Errc::kProtocol) << size << " bytes";
    EXPECT_NE(cut.error().message.find("cut.token"), std::string::npos) << cut.error().message;
  }
  for (std::size_t at = token.find("BEGIN"); at < token.size(); at += 97) {
    std::string damaged = token;
    damaged[at] = damaged[at] == 'A' ? 'B' : 'A';
    const auto read = TlsIdentity::OfToken(keys.File("damaged.token", damaged));
    if (!read) {
      EXPECT_EQ(CodeOf(read), Errc::kProtocol) << at;
    }
  }
  for (const char* file : {"/ca.pem", "/node.pem", "/node.key"}) {
    const std::string before = TextOf(keys.dir() + file);
    for (const std::string& other : {std::string(), before.substr(0, before.size() / 2), before + before}) {
      ASSERT_TRUE(platform::WriteFileAtomically(keys.dir() + file, other));
      ExpectError(TlsIdentity::OfNode(keys.dir()).error(), Errc::kProtocol, file);
    }
    ASSERT_TRUE(platform::WriteFileAtomically(keys.dir() + file, before));
  }
  EXPECT_TRUE(TlsIdentity::OfNode(keys.dir()));
}

TEST(KeyFiles, ThatWereSwappedAreReported) {
  const NodeKeys keys, others;
  const auto swapped = [&](const std::string& a, const std::string& b) {
    fs::rename(a, a + ".kept");
    fs::copy_file(b, a);
    const auto node = TlsIdentity::OfNode(keys.dir());
    const auto token = MakeToken(keys.dir(), "render", kDay);
    const Error error = !node ? node.error() : !token ? token.error() : Fail(Errc::kInternal, "nothing was noticed");
    ExpectError(error, Errc::kProtocol, "swapped");
    fs::rename(a + ".kept", a);
  };
  swapped(keys.dir() + "/node.pem", keys.dir() + "/ca.pem");
  swapped(keys.dir() + "/ca.pem", keys.dir() + "/node.pem");
  swapped(keys.dir() + "/node.key", keys.dir() + "/ca.key");
  swapped(keys.dir() + "/ca.key", keys.dir() + "/node.key");
  swapped(keys.dir() + "/node.pem", others.dir() + "/node.pem");
  swapped(keys.dir() + "/ca.pem", others.dir() + "/ca.pem");
  // The parts of a token.
  const std::string token = TextOf(keys.TokenFile("render")), other = TextOf(keys.TokenFile("other"));
  const std::string begin = "-----BEGIN ", certificate = begin + "CERTIFICATE";
  const std::size_t first = token.find(begin), second = token.find(certificate, first + 1);
  const std::size_t key = token.find(begin + "PRIVATE");
  const std::string authority_text = token.substr(first, second - first), own_text = token.substr(second, key - second);
  const std::string other_key = other.substr(other.find(begin + "PRIVATE"));
  for (const std::string& wrong :
       {own_text + authority_text + token.substr(key), authority_text + own_text + other_key,
        own_text + own_text + token.substr(key), TextOf(others.dir() + "/ca.pem") + token.substr(second)})
    ExpectError(TlsIdentity::OfToken(keys.File("swapped.token", wrong)).error(), Errc::kProtocol, "swapped");
}

TEST(KeyFiles, MustBelongToTheUser) {
  const NodeKeys keys;
  ExpectError(TlsIdentity::OfToken(keys.dir()).error(), Errc::kInvalidArgument, "is not a file");
  ExpectError(TlsIdentity::OfToken("/dev/zero").error(), Errc::kInvalidArgument, "is not a file");
  EXPECT_EQ(CodeOf(TlsIdentity::OfToken(keys.dir() + "/none")), Errc::kNotFound);
  if (::geteuid() == 0) {
    const std::string token = keys.TokenFile("render");
    ASSERT_EQ(::chown(token.c_str(), 12345, 12345), 0);
    ExpectError(TlsIdentity::OfToken(token).error(), Errc::kPermissionDenied, "belongs to user 12345");
  }
}

}  // namespace
}  // namespace weir::net
