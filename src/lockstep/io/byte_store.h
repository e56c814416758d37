// Files by name, wherever they lie: in a folder, in a tar archive, or in an object store as s3://.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::io {

/// What a listing gives for each name.
struct Listed {
  enum class Kind {
    file,
    folder,
    other
  };  ///< other: what cannot be read: a link to nothing, a pipe or device, in an archive any link but a hard
      ///< one
  std::string_view path;  ///< below the store's root, parts separated by '/'; valid during the call
  int64_t size = -1;      ///< of a file, bytes; -1 where it was not asked for and is not known anyway
  Kind kind = Kind::file;
  std::optional<int64_t> changed = {};  ///< of a file, when its bytes last changed, ns since 1970 (of an
                                        ///< archive's files, the archive); none as -1 for size
};

/// Called for each name, in no stated order but a folder before what it holds. Of a folder it says whether
/// that is wanted; a store without real folders gives it all the same, and may leave folders out. One with
/// real folders gives a folder's files before the folders in it. The answer for a file means nothing.
using Visit = std::function<bool(const Listed& listed)>;

/// Whether a listing must have sizes and times, for which a folder asks the system about every file.
enum class Sizes { wanted, if_known };

/// A file as a listing named it; its size saves a question to a server where it is known.
struct FileName {
  std::string_view path;
  int64_t size = -1;
};

/// Files to read. Const: any thread may call any member at any time.
class ByteStore {
 public:
  virtual ~ByteStore() = default;

  /// The root for messages, without options and keys; a file's name for messages is name() + "/" + path.
  virtual const std::string& name() const = 0;
  /// "folder", "tar archive", "s3".
  virtual std::string kind() const = 0;

  /// All that lies below the root. Throws not_found, io, corrupt_data; communication when a server does not
  /// answer; invalid_option when it does not let us in.
  virtual void list(Sizes sizes, const Visit& visit) const = 0;

  /// Bytes of one file; none where nothing, or a folder, has this path. Throws as list does; io for what a
  /// listing gives as Listed::Kind::other.
  virtual std::optional<int64_t> size_of(std::string_view path) const = 0;

  /// The whole file. Throws as list does, and corrupt_data when it has more than `most_bytes`.
  virtual std::string read(FileName file, int64_t most_bytes) const = 0;

  /// Bytes from `offset` on into `destination`; fewer only at the file's end. Returns how many. Throws as
  /// list does.
  virtual size_t read_at(FileName file, int64_t offset, std::span<char> destination) const = 0;

  /// How many reads at once are worth their threads: many where each waits for a network; 0 where reading is
  /// the processor's work.
  virtual int64_t parallel_reads() const = 0;
};

/// One file being written. Without finish() it is as if nothing had been written.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void append(std::string_view bytes) = 0;
  virtual void finish() = 0;
};

/// A place to write files to. Any thread may call create(); a file appears whole at its finish(), or not at
/// all.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual const std::string& name() const = 0;
  /// What is there already, or null where a copy always begins anew.
  virtual std::shared_ptr<const ByteStore> present() const = 0;
  /// How many files are best written at once. 1: the next create() must wait for the last finish().
  virtual int64_t parallel_writes() const = 0;
  /// `size` is how many bytes will be appended. Throws invalid_option for a path that would leave the root.
  virtual std::unique_ptr<FileWriter> create(std::string_view path, int64_t size) = 0;
  /// After the last file: makes all of them stay.
  virtual void finish() = 0;
};

/// "plants" of "plants.tar.gz"; other names as they are.
std::string without_archive_ending(const std::string& name);

struct StoreOptions {
  /// The most that an unpacked archive may take, bytes.
  int64_t most_memory = int64_t{4} << 30;
  /// How often a listing may enter, through links, a folder in which it was before: links to folders of links
  /// multiply.
  int64_t most_revisits = 100'000;
};

/// Whether `where` names an archive, or a folder in one: "plants.tar", "plants.tar.gz/plants/train".
bool names_archive(const std::string& where);

/// What names the folder that holds what `where` names, for open_store, and its name there: "data.tar/" and
/// "a.ts" of "data.tar/a.ts", "s3://bucket/?region=x" and "a.ts" of "s3://bucket/a.ts?region=x", "" and
/// "a.ts" of "a.ts". The name is empty after a slash, and for a bucket.
std::pair<std::string, std::string> folder_and_name(const std::string& where);

/// Opens a folder ("": paths are then the process's own), an archive or an address. Throws not_found for what
/// is not there, invalid_option for an address of no known kind or with a secret in it, and where the library
/// for it is missing; corrupt_data for what is no archive or a damaged one.
std::shared_ptr<const ByteStore> open_store(const std::string& where, const StoreOptions& options = {});

/// The same to write to: a folder is made, an archive replaced at finish(). Throws as open_store does.
std::unique_ptr<ByteSink> open_sink(const std::string& where);

}  // namespace lockstep::io
