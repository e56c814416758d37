// Files by name, wherever they are stored: in a folder, in a tar archive, or in an object store such as
// s3://.
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

/// An entry of a listing.
struct Listed {
  enum class Kind {
    file,
    folder,
    other
  };  ///< other: cannot be read: a broken link, a pipe or a device, and in an archive any link except a hard
      ///< link
  std::string_view path;  ///< below the store's root, parts separated by '/'; valid during the call
  int64_t size = -1;      ///< size of a file in bytes; -1 if it was not requested and is not known
  Kind kind = Kind::file;
  std::optional<int64_t> changed =
      {};  ///< time of the last change of a file's bytes, ns since 1970 (for a file in an
           ///< archive: of the archive); none in the same cases as size -1
};

/// Called for each entry, in any order except that a folder comes before its contents. For a folder, the
/// return value says whether to list it; a store without real folders may list it anyway, and may omit
/// folders. A store with real folders lists a folder's files before its folders. For a file, the return value
/// is ignored.
using Visit = std::function<bool(const Listed& listed)>;

/// Whether a listing must have sizes and times; a folder then needs one system call per file.
enum class Sizes { wanted, if_known };

/// A file from a listing. If the size is known, a request to the server is saved.
struct FileName {
  std::string_view path;
  int64_t size = -1;
};

/// Files to read. Const: any thread may call any member at any time.
class ByteStore {
 public:
  virtual ~ByteStore() = default;

  /// The root as shown in messages, without options and keys. A file is shown as name() + "/" + path.
  virtual const std::string& name() const = 0;
  /// "folder", "tar archive", "s3".
  virtual std::string kind() const = 0;

  /// Lists everything below the root. Throws not_found, io, corrupt_data; communication if a server does not
  /// answer; invalid_option if a server denies access.
  virtual void list(Sizes sizes, const Visit& visit) const = 0;

  /// Size of a file in bytes; none if the path does not exist or is a folder. Throws as list does; io for an
  /// entry of kind Listed::Kind::other.
  virtual std::optional<int64_t> size_of(std::string_view path) const = 0;

  /// The whole file. Throws as list does, and corrupt_data if it has more than `most_bytes`.
  virtual std::string read(FileName file, int64_t most_bytes) const = 0;

  /// Reads bytes from `offset` into `destination`, and returns their number, which is smaller than the
  /// destination only at the file's end. Throws as list does.
  virtual size_t read_at(FileName file, int64_t offset, std::span<char> destination) const = 0;

  /// How many parallel reads are useful: many for a network, where each read waits; 0 if reading is limited
  /// by the processor.
  virtual int64_t parallel_reads() const = 0;
};

/// A file being written. It appears only with finish().
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void append(std::string_view bytes) = 0;
  virtual void finish() = 0;
};

/// A destination for files. Any thread may call create(). A file appears complete at its finish(), or not at
/// all.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual const std::string& name() const = 0;
  /// The files that already exist, or null if a copy always starts from the beginning.
  virtual std::shared_ptr<const ByteStore> present() const = 0;
  /// How many files are best written in parallel. 1: the next create() must wait for the last finish().
  virtual int64_t parallel_writes() const = 0;
  /// `size` is the number of bytes to append. Throws invalid_option for a path that leaves the root.
  virtual std::unique_ptr<FileWriter> create(std::string_view path, int64_t size) = 0;
  /// Called after the last file: makes all files durable.
  virtual void finish() = 0;
};

/// "plants" for "plants.tar.gz"; other names unchanged.
std::string without_archive_ending(const std::string& name);

/// A short name for what is at a place: "plants" for "/data/plants.tar" and "s3://bucket/plants"; may be
/// empty, as for "/".
std::string short_name(const std::string& where);

struct StoreOptions {
  /// Maximum memory for an unpacked archive, in bytes.
  int64_t most_memory = int64_t{4} << 30;
  /// How often a listing may enter, through links, a folder that it has already listed. Without a limit,
  /// links to folders of links would multiply.
  int64_t most_revisits = 100'000;
};

/// Whether `where` names an archive, or a folder in one, such as "plants.tar" or
/// "plants.tar.gz/plants/train".
bool names_archive(const std::string& where);

/// Splits `where` into the folder, as open_store expects it, and the name in that folder: "data.tar/" and
/// "a.ts" for "data.tar/a.ts", "s3://bucket/?region=x" and "a.ts" for "s3://bucket/a.ts?region=x", "" and
/// "a.ts" for "a.ts". The name is empty after a slash, and for a bucket.
std::pair<std::string, std::string> folder_and_name(const std::string& where);

/// Opens a folder ("": paths are the process's own), an archive or an address. Throws not_found if it does
/// not exist; invalid_option for an address of an unknown kind or with a secret, and if the library for the
/// address is missing; corrupt_data for a damaged archive or a file that is not an archive.
std::shared_ptr<const ByteStore> open_store(const std::string& where, const StoreOptions& options = {});

/// Opens a destination: a folder is created, an archive is replaced at finish(). Throws as open_store does.
std::unique_ptr<ByteSink> open_sink(const std::string& where);

}  // namespace lockstep::io
