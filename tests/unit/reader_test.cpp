#include "pipeline/documents/reader.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "pipeline/documents/byte_stream.hpp"
#include "pipeline/documents/jsonl.hpp"
#include "pipeline/documents/lines.hpp"
#include "tests/support/await.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::pipeline {
namespace {

using sluice::testing::run_to_end;
using sluice::testing::scratch_folder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<source_item> all_of(boost::asio::io_context& io, document_source& source) {
  std::vector<source_item> items;
  while (auto item = run_to_end(io, source.next())) items.push_back(std::move(*item));
  return items;
}

// "id=text" of a document, "id!reason" of a bad one.
std::string shown(const source_item& item) {
  if (const auto* d = std::get_if<document>(&item)) return d->id + "=" + d->text + d->messages;
  const auto& b = std::get<bad_document>(item);
  return b.id + "!" + std::string(retry::name(b.why));
}

std::vector<std::string> shown(const std::vector<source_item>& items) {
  std::vector<std::string> out;
  for (const auto& i : items) out.push_back(shown(i));
  return out;
}

class Reader : public ::testing::Test {
 protected:
  std::vector<source_item> read(std::vector<std::string> inputs) {
    const auto source = open_documents(io.get_executor(), std::move(inputs));
    return all_of(io, *source);
  }
  std::string refusal(std::vector<std::string> inputs) {
    try {
      open_documents(io.get_executor(), std::move(inputs));
    } catch (const input_failure& e) {
      return e.what();
    }
    return "no refusal";
  }
  scratch_folder folder;
  boost::asio::io_context io;
};

const document& doc(const source_item& i) {
  return std::get<document>(i);
}
const bad_document& bad(const source_item& i) {
  return std::get<bad_document>(i);
}

TEST_F(Reader, AcceptsMarkBlankLinesCarriageReturnsAndAnUnendedLastLine) {
  const auto path = folder.write(
      "in.jsonl",
      "\xEF\xBB\xBF{\"id\":\"1\",\"text\":\"a\"}\r\n\r\n  \t\n{\"id\":\"2\",\"text\":\"b\"}");
  const auto items = read({path});
  EXPECT_THAT(shown(items), ElementsAre("1=a", "2=b"));
  EXPECT_EQ(doc(items[0]).from.line, 1U);
  EXPECT_EQ(doc(items[1]).from.line, 4U) << "blank lines keep the numbering";
  EXPECT_EQ(doc(items[1]).from.path, path);
  EXPECT_EQ(doc(items[1]).from.from, origin::kind::jsonl_line);
}

TEST_F(Reader, ReportsABadLineByItsPlaceAndGoesOn) {
  const auto path = folder.write("in.jsonl",
                                 "{\"id\":\"1\",\"text\":\"a\"}\nnonsense\n"
                                 "{\"id\":\"3\",\"text\":\"\\ud83d\"}\n"
                                 "{\"id\":\"4\",\"text\":\"  \"}\n"
                                 "{\"id\":\"5\",\"text\":\"b\"}\n");
  const auto items = read({path});
  EXPECT_THAT(shown(items), ElementsAre("1=a", path + ":2!input_error", path + ":3!input_error",
                                        "4!empty_input", "5=b"));
  EXPECT_THAT(bad(items[1]).detail, HasSubstr(path + ":2: not JSON"));
  EXPECT_EQ(bad(items[1]).from.line, 2U);
  EXPECT_THAT(bad(items[2]).detail, HasSubstr("surrogate"));
  EXPECT_THAT(bad(items[3]).detail, HasSubstr(path + ":4: "));
}

TEST_F(Reader, ATornLastLineIsBadAndNothingElse) {
  const auto path =
      folder.write("in.jsonl", "{\"id\":\"1\",\"text\":\"a\"}\n{\"id\":\"2\",\"text\":\"Inv\xC3");
  EXPECT_THAT(shown(read({path})), ElementsAre("1=a", path + ":2!input_error"));
}

TEST_F(Reader, TheFirstOfARepeatedIdWins) {
  const auto path =
      folder.write("in.jsonl", "{\"id\":\"1\",\"text\":\"a\"}\n{\"id\":1,\"text\":\"b\"}\n");
  const auto other = folder.write("other.jsonl", "{\"id\":\"1\",\"text\":\"c\"}\n");
  const auto items = read({path, other});
  EXPECT_THAT(shown(items),
              ElementsAre("1=a", path + ":2!duplicate_id", other + ":1!duplicate_id"));
  EXPECT_THAT(bad(items[2]).detail, HasSubstr("already at " + path + ":1"));
}

TEST_F(Reader, NoTwoItemsHaveTheSameIdWhateverTheInput) {
  const auto path = folder.at("in.jsonl");
  folder.write("in.jsonl", "bad\n{\"id\":\"" + path + ":3\",\"text\":\"a\"}\nbad\n{\"id\":\"" +
                               path + ":1\",\"text\":\"b\"}\n");
  const auto items = read({path, path, path});
  std::set<std::pair<std::string, bool>> ids;
  for (const auto& i : items)
    ids.emplace(std::holds_alternative<document>(i) ? doc(i).id : bad(i).id,
                std::holds_alternative<bad_document>(i) && bad(i).from.unnamed);
  EXPECT_EQ(items.size(), 12U);
  EXPECT_EQ(shown(items[1]), path + ":3=a") << "a bad line takes nobody's ID";
  EXPECT_EQ(shown(items[3]), path + ":1=b");
  EXPECT_EQ(ids.size(), items.size());
}

TEST_F(Reader, ReadsAFolderSortedWithoutHiddenFilesAndLinks) {
  folder.write("d/b.txt", "B");
  folder.write("d/a/z.md", "Z");
  folder.write("d/a.TXT", "A");
  folder.write("d/.hidden.txt", "no");
  folder.write("d/.git/x.txt", "no");
  folder.write("d/c.pdf", "no");
  folder.write("d/txt", "no");
  std::filesystem::create_symlink("b.txt", folder.at("d/link.txt"));
  std::filesystem::create_directory_symlink("..", folder.at("d/loop"));
  const auto items = read({folder.at("d")});
  EXPECT_THAT(shown(items), ElementsAre("a.TXT=A", "a/z.md=Z", "b.txt=B"));
  EXPECT_EQ(doc(items[1]).from.path, folder.at("d/a/z.md"));
  EXPECT_EQ(doc(items[1]).from.line, 0U);
  EXPECT_EQ(shown(read({folder.at("d/")})), shown(items)) << "a slash at the end changes nothing";
}

TEST_F(Reader, AFolderWithoutDocumentsIsAnEmptyBatch) {
  folder.write("d/c.pdf", "no");
  EXPECT_THAT(read({folder.at("d")}), IsEmpty());
}

TEST_F(Reader, ASingleFileIsOneDocumentUnderItsName) {
  const auto path = folder.write("d/note.log", "\xEF\xBB\xBFone\r\ntwo\n");
  EXPECT_THAT(shown(read({path})), ElementsAre("note.log=one\r\ntwo\n"));
}

TEST_F(Reader, SaysWhatIsWrongWithATextFile) {
  struct {
    const char* name;
    std::string content;
    const char* shown;
    const char* detail;
  } const rows[] = {
      {"latin.txt", "ok\nd\xE9j\xE0", "latin.txt!input_error", "latin.txt:2: not UTF-8 at byte 5"},
      {"wide.txt", std::string("\xFF\xFEh\0", 4), "wide.txt!input_error", "UTF-16"},
      {"nul.txt", std::string("a\0b", 3), "nul.txt!input_error", "NUL"},
      {"empty.txt", "", "empty.txt!empty_input", "empty"},
      {"blank.txt", " \n\xC2\xA0\t", "blank.txt!empty_input", "empty"},
      {"mark.txt", "\xEF\xBB\xBF", "mark.txt!empty_input", "empty"},
  };
  for (const auto& row : rows) {
    const auto items = read({folder.write(row.name, row.content)});
    EXPECT_THAT(shown(items), ElementsAre(row.shown));
    EXPECT_THAT(bad(items[0]).detail, HasSubstr(row.detail));
  }
}

TEST_F(Reader, AFileOverTheSizeLimitIsBadAndTheOthersGoOn) {
  const auto big = folder.write("d/big.txt", "");
  std::filesystem::resize_file(big, longest_document + 1);
  folder.write("d/small.txt", "s");
  const auto items = read({folder.at("d")});
  EXPECT_THAT(shown(items), ElementsAre("big.txt!input_error", "small.txt=s"));
  EXPECT_THAT(bad(items[0]).detail, HasSubstr("longer than 16 MiB"));
}

TEST_F(Reader, ALineOverTheSizeLimitIsPassedOver) {
  const std::string start = "{\"id\":\"1\",\"text\":\"";
  const std::string longest(longest_document - start.size() - 2, 'x');
  const auto path = folder.write("in.jsonl", start + longest + "\"}\r\n" + start + longest +
                                                 "x\"}\r\n{\"id\":\"3\",\"text\":\"c\"}\n");
  const auto items = read({path});
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(doc(items[0]).text.size(), longest.size());
  EXPECT_EQ(shown(items[1]), path + ":2!input_error");
  EXPECT_THAT(bad(items[1]).detail, HasSubstr("longer than 16 MiB"));
  EXPECT_EQ(shown(items[2]), "3=c");
}

TEST_F(Reader, AFileThatVanishesMeanwhileIsBadAndTheOthersGoOn) {
  folder.write("d/a.txt", "A");
  folder.write("d/b.txt", "B");
  const auto lines = folder.write("in.jsonl", "{\"id\":\"1\",\"text\":\"a\"}\n");
  const auto source = open_documents(io.get_executor(), {folder.at("d"), lines});
  std::filesystem::remove(folder.at("d/a.txt"));
  std::filesystem::remove(lines);
  EXPECT_THAT(shown(all_of(io, *source)),
              ElementsAre("a.txt!input_error", "b.txt=B", lines + "!input_error"));
}

TEST_F(Reader, RefusesWhatCannotBeABatch) {
  folder.write("file", "x");
  ASSERT_EQ(::mkfifo(folder.at("fifo").c_str(), 0600), 0);
  struct {
    std::vector<std::string> inputs;
    const char* words;
  } const rows[] = {
      {{folder.at("none.jsonl")}, "none.jsonl: does not exist; check the spelling"},
      {{folder.at("file/below.txt")}, "does not exist"},
      {{folder.at("fifo")}, "fifo: is neither a file nor a folder; pipe JSONL into -"},
      {{"/dev/null"}, "neither a file nor a folder"},
      {{""}, "an empty name"},
      {{"-", "-"}, "standard input is named twice"},
      {{folder.at("file"), folder.at("none")}, "none: does not exist"},
  };
  for (const auto& row : rows) EXPECT_THAT(refusal(row.inputs), HasSubstr(row.words));
}

TEST_F(Reader, RefusesAFolderThatCannotBeReadAndOnlyReportsSuchAFile) {
  const uid_t me = ::geteuid();  // only root has to become somebody with fewer rights
  namespace fs = std::filesystem;
  folder.write("d/a.txt", "A");
  folder.write("d/locked/b.txt", "B");
  folder.write("e/a.txt", "A");
  folder.write("e/b.txt", "B");
  fs::permissions(folder.at(""), fs::perms(0755));
  fs::permissions(folder.at("d/locked"), fs::perms::none);
  fs::permissions(folder.at("e/a.txt"), fs::perms::none);
  if (me == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string folder_refused = refusal({folder.at("d")});
  const std::string file_refused = refusal({folder.at("e/a.txt")});
  const auto items = read({folder.at("e")});
  if (me == 0) {
    ASSERT_EQ(::seteuid(me), 0);
  }
  EXPECT_THAT(folder_refused, HasSubstr("d/locked: the folder cannot be read"));
  EXPECT_THAT(file_refused, HasSubstr("cannot be opened"));
  EXPECT_THAT(shown(items), ElementsAre("a.txt!input_error", "b.txt=B"));
}

TEST_F(Reader, AFileNameThatIsNoUtf8GetsAnIdThatIs) {
  folder.write("d/caf\xE9.txt", "C");
  const auto items = read({folder.at("d")});
  EXPECT_THAT(shown(items), ElementsAre("caf\xEF\xBF\xBD.txt=C"));
  EXPECT_EQ(doc(items[0]).from.path, folder.at("d/caf\xE9.txt"));
}

// Standard input, by descriptor.

class Piped : public Reader {
 protected:
  std::vector<std::string> lines_of(int descriptor) {
    line_reader reader(open_descriptor(io.get_executor(), descriptor));
    std::vector<std::string> out;
    text_line line;
    while (run_to_end(io, reader.next(line))) out.push_back(line.text);
    return out;
  }
};

TEST_F(Piped, ReadsAPipeInPiecesWithoutTouchingItsFlags) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  line_reader reader(open_descriptor(io.get_executor(), ends[0]));
  text_line line;
  bool done = false;
  boost::asio::co_spawn(io, reader.next(line), [&](std::exception_ptr, bool) { done = true; });
  ASSERT_EQ(::write(ends[1], "he", 2), 2);
  io.poll();
  EXPECT_FALSE(done) << "half a line is not enough, and must not hold anybody up";
  EXPECT_EQ(::fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
  ASSERT_EQ(::write(ends[1], "llo\nlast", 8), 8);
  ::close(ends[1]);
  io.run();
  EXPECT_TRUE(done);
  EXPECT_EQ(line.text, "hello");
  EXPECT_TRUE(run_to_end(io, reader.next(line)));
  EXPECT_EQ(line.text, "last");
  EXPECT_FALSE(run_to_end(io, reader.next(line)));
  ::close(ends[0]);
}

TEST_F(Piped, ReadsARegularFileFromWhereItStands) {
  const int fd = ::open(folder.write("f", "one\ntwo\nthree\n").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::lseek(fd, 4, SEEK_SET), 4);
  EXPECT_THAT(lines_of(fd), ElementsAre("two", "three"));
  ::close(fd);
}

TEST_F(Piped, ReadsASocketAndTheNullDevice) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(::write(ends[1], "a\nb\n", 4), 4);
  ::close(ends[1]);
  EXPECT_THAT(lines_of(ends[0]), ElementsAre("a", "b"));
  EXPECT_EQ(::fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0) << "put back as it was";
  ::close(ends[0]);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_THAT(lines_of(null), IsEmpty());
  ::close(null);
}

TEST_F(Piped, AWaitForMoreCanBeEnded) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int before = ::dup(STDIN_FILENO);
  ASSERT_EQ(::dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  const auto source = open_documents(io.get_executor(), {"-"});
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(ends[0]);
  std::optional<source_item> item(bad_document{});
  bool done = false;
  ASSERT_GT(::write(ends[1], "{\"id\":\"1\",\"text\":\"a\"}\n{\"id\":", 28), 0);
  EXPECT_EQ(shown(*run_to_end(io, source->next())), "1=a");
  boost::asio::co_spawn(io, source->next(),
                        [&](std::exception_ptr, std::optional<source_item> got) {
                          item = std::move(got);
                          done = true;
                        });
  io.restart();
  io.poll();
  EXPECT_FALSE(done);
  source->abort();
  io.run();
  EXPECT_TRUE(done);
  EXPECT_FALSE(item.has_value()) << "half a line is no document";
  EXPECT_FALSE(run_to_end(io, source->next()).has_value());
  ::close(ends[1]);
}

// Reading again.

rerun_target target(std::string id, origin::kind from, std::string path, std::uint64_t line,
                    std::string kept = std::string()) {
  rerun_target t;
  t.id = std::move(id);
  t.from.from = from;
  t.from.path = std::move(path);
  t.from.line = line;
  t.kept_document = std::move(kept);
  return t;
}

TEST_F(Reader, ReadsAgainFromWhereItCame) {
  const auto lines = folder.write("in.jsonl",
                                  "{\"id\":\"1\",\"text\":\"a\"}\n\n{\"id\":\"3\",\"text\":\"c\"}\n"
                                  "nonsense\n{\"id\":\"5\",\"text\":\" \"}\n");
  const auto text = folder.write("note.txt", "N");
  const auto jsonl = origin::kind::jsonl_line;
  const auto piped = origin::kind::standard_input;
  const std::string conversation = R"([{"role":"user","content":"hi"}])";
  std::vector<rerun_target> targets{
      target("5", jsonl, lines, 5),
      target("3", jsonl, lines, 3),
      target("1", jsonl, lines, 1),
      target(lines + ":4", jsonl, lines, 4),
      target("9", jsonl, lines, 9),
      target("10", jsonl, lines, 10),
      target("x", jsonl, lines, 2),
      target("note.txt", origin::kind::text_file, text, 0),
      target("gone.txt", origin::kind::text_file, folder.at("gone.txt"), 0),
      target("g", jsonl, folder.at("gone.jsonl"), 1),
      target("p", piped, "", 1, jsonl_line("p", "kept", "")),
      target("q", piped, "", 2, jsonl_line("q", "", conversation)),
      target("-:3", piped, "", 3, jsonl_line("-:3", "", "")),
      target("r", piped, "", 4, ""),
  };
  for (rerun_target& t : targets) t.from.unnamed = t.id == "-:3" || t.id == lines + ":4";
  const auto source = open_rerun(io.get_executor(), std::move(targets));
  const auto items = all_of(io, *source);
  EXPECT_THAT(shown(items),
              ElementsAre("1=a", "x!input_error", "3=c", lines + ":4!input_error", "5!empty_input",
                          "9!document_missing", "10!document_missing", "note.txt=N",
                          "gone.txt!document_missing", "g!document_missing", "p=kept",
                          "q=" + conversation, "-:3!document_missing", "r!document_missing"));
  EXPECT_EQ(doc(items[2]).from.line, 3U);
  EXPECT_EQ(doc(items[10]).from.from, piped) << "so that it is kept again";
}

TEST_F(Reader, ALineThatHoldsAnotherDocumentNowIsNotSent) {
  const auto lines = folder.write("in.jsonl", "{\"id\":\"new\",\"text\":\"a\"}\n");
  const auto source =
      open_rerun(io.get_executor(), {target("old", origin::kind::jsonl_line, lines, 1)});
  const auto items = all_of(io, *source);
  EXPECT_THAT(shown(items), ElementsAre("old!document_missing"));
  EXPECT_THAT(bad(items[0]).detail, HasSubstr("now holds the ID \"new\": run the batch again"));
}

}  // namespace
}  // namespace sluice::pipeline
