#include "lockstep/nn/graph.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/seed.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/nn/internal/testing.h"

namespace lockstep::nn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// These layers and what makes a classifier of them.
std::string classifier(const std::string& layers) {
  return "[" + layers + R"(,{"type":"flatten"},{"type":"linear","features":"classes"}])";
}

TEST(Graph, AFileWhoseNameIsNotUtf8IsRefused) {
  const lockstep::test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "net\xFF.json";
  std::ofstream(file) << R"([{"type":"flatten"},{"type":"linear","features":"classes"}])";
  EXPECT_THAT(error_of([&] { read_network_file(file); }), HasSubstr("is not UTF-8"));
}

TEST(Graph, AListNamesLayersByPlaceAndEachTakesTheOneBefore) {
  const NetworkTable table = inspect_network(
      read_network(Json::parse(classifier(R"({"type":"conv2d","filters":4,"kernel":3})")), "net"), {});
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].name, "0");
  EXPECT_THAT(table.rows[0].inputs, ElementsAre("input"));
  EXPECT_THAT(table.rows[0].shape, ElementsAre(4, 26, 26));
  EXPECT_EQ(table.rows[0].learnable_count, 40);
  EXPECT_THAT(table.rows[1].inputs, ElementsAre("0"));
  EXPECT_THAT(table.rows[2].shape, ElementsAre(10));
}

TEST(Graph, LayersAreEvaluatedAfterWhatTheyTake) {
  const LayerGraph graph = read_graph(Json::parse(R"({"layers":[
    {"name":"out","type":"linear","features":"classes","inputs":["flat"]},
    {"name":"flat","type":"flatten","inputs":["sum"]},
    {"name":"a","type":"relu","inputs":["input"]},
    {"name":"b","type":"tanh","inputs":"input"},
    {"name":"sum","type":"add","inputs":["a","b"]}]})"));
  EXPECT_THAT(graph.order, ElementsAre(2, 3, 4, 1, 0));
  EXPECT_EQ(graph.output, 0u);
}

TEST(Graph, MisspeltWordsGetTheNearest) {
  EXPECT_THAT(complaint(R"([{"type":"conv2","filters":4,"kernel":3}])"),
              AllOf(HasSubstr("layer \"0\" has the unknown type \"conv2\""),
                    HasSubstr("did you mean \"conv2d\"?"), HasSubstr("in network \"net\"")));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filtres":4,"kernel":3}])"),
              AllOf(HasSubstr("layer \"0\" (conv2d) has no option \"filtres\""),
                    HasSubstr("did you mean \"filters\"?")));
  EXPECT_THAT(complaint(R"([{"type":"relu","inplace":true}])"),
              AllOf(HasSubstr("has no option \"inplace\""), HasSubstr("known are name, type, inputs")));
  EXPECT_THAT(complaint(R"({"layer":[]})"), AllOf(HasSubstr("no entry \"layer\""), HasSubstr("\"layers\"")));
  EXPECT_THAT(complaint(R"([{"name":"first","type":"relu"},{"type":"relu","inputs":["frist"]}])"),
              AllOf(HasSubstr("has the input \"frist\", which is not a layer"),
                    HasSubstr("did you mean \"first\"?")));
  EXPECT_THAT(
      complaint(R"([{"type":"conv2d","filters":4,"kernel":3,"initializer":"xaver"}])"),
      AllOf(HasSubstr("layer \"0\" (conv2d): option initializer cannot be \"xaver\""), HasSubstr("xavier")));
  EXPECT_THAT(complaint(R"({"initializer":"bad","layers":[{"type":"linear","features":3}]})"),
              HasSubstr("option initializer cannot be \"bad\""));
}

TEST(Graph, BadValuesNameLayerOptionAndLimits) {
  EXPECT_THAT(
      complaint(R"([{"type":"conv2d","filters":0,"kernel":3}])"),
      HasSubstr("layer \"0\" (conv2d): option filters cannot be \"0\": it must be a whole number from 1"));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":4,"kernel":-3}])"),
              HasSubstr("option kernel cannot be \"-3\""));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":4,"kernel":3.5}])"),
              HasSubstr("option kernel cannot be \"3.5\""));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":4,"kernel":[1,2,3]}])"),
              HasSubstr("has 3 numbers in \"kernel\""));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":4,"kernel":{"a":1}}])"),
              HasSubstr("\"kernel\" must be a number, a text"));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":"many","kernel":3}])"),
              HasSubstr("option filters cannot be"));
  EXPECT_THAT(complaint(R"([{"type":"dropout","probability":1.5}])"),
              HasSubstr("option probability cannot be"));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","kernel":3}])"), HasSubstr("needs \"filters\""));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":4}])"), HasSubstr("needs \"kernel\""));
  EXPECT_THAT(complaint(R"([{"type":"flatten"},{"type":"linear"}])"), HasSubstr("needs \"features\""));
  EXPECT_THAT(complaint(R"([{"type":"max_pool"}])"), HasSubstr("needs \"kernel\""));
  EXPECT_THAT(complaint(R"([{"type":"max_pool","kernel":2,"padding":2}])"),
              HasSubstr("more than half of its kernel 2x2"));
}

TEST(Graph, StructureIsChecked) {
  EXPECT_THAT(complaint("[]"), HasSubstr("has no layers"));
  EXPECT_THAT(complaint("{}"), HasSubstr("no list of \"layers\""));
  EXPECT_THAT(complaint("3"), HasSubstr("a network must be a JSON list"));
  EXPECT_THAT(complaint("[7]"), HasSubstr("layer 0 of the list is not a JSON object"));
  EXPECT_THAT(complaint(R"([{"name":"a"}])"), HasSubstr("layer \"a\" has no \"type\""));
  EXPECT_THAT(complaint(R"([{"type":5}])"), HasSubstr("\"type\" must be a text"));
  EXPECT_THAT(complaint(R"([{"name":"a","type":"relu"},{"name":"a","type":"relu"}])"),
              HasSubstr("two layers are named \"a\""));
  EXPECT_THAT(complaint(R"([{"name":"a","type":"relu"},{"name":"a.b","type":"relu"}])"),
              HasSubstr("layer \"a.b\" would be inside layer \"a\""));
  EXPECT_THAT(complaint(R"([{"name":"input","type":"relu"}])"), HasSubstr("cannot be named \"input\""));
  for (const char* name : {"", ".a", "a..b", "a.", "a b", "a\\u0001", "a\\u009b31m"}) {
    EXPECT_THAT(complaint(R"([{"name":")" + std::string(name) + R"(","type":"relu"}])"),
                HasSubstr("a layer cannot be named"))
        << name;
  }
  EXPECT_THAT(complaint(R"([{"type":"relu","inputs":[]}])"), HasSubstr("\"inputs\" must be a list of names"));
  EXPECT_THAT(complaint(R"([{"type":"relu","inputs":[3]}])"),
              HasSubstr("\"inputs\" must be a list of names"));
}

TEST(Graph, CyclesAndLooseEndsAreNamed) {
  EXPECT_THAT(complaint(R"([{"name":"a","type":"add","inputs":["input","c"]},{"name":"b","type":"relu"},)"
                        R"({"name":"c","type":"relu"},{"name":"d","type":"relu"}])"),
              HasSubstr("the layers form a cycle: \"a\" -> \"b\" -> \"c\" -> \"a\""));
  EXPECT_THAT(complaint(R"([{"name":"a","type":"relu","inputs":["a"]}])"),
              HasSubstr("form a cycle: \"a\" -> \"a\""));
  EXPECT_THAT(complaint(R"([{"name":"a","type":"relu"},{"name":"b","type":"relu","inputs":["input"]}])"),
              AllOf(HasSubstr("no layer reads the output of \"a\", \"b\""), HasSubstr("would have 2")));
}

TEST(Graph, ClashingShapesAreNamed) {
  EXPECT_THAT(complaint(R"([{"type":"linear","features":"classes"}])"),
              AllOf(HasSubstr("layer \"0\" (linear) needs [features], but \"input\" returns [1,28,28]"),
                    HasSubstr("flatten layer")));
  EXPECT_THAT(complaint(R"([{"type":"flatten"},{"type":"conv2d","filters":2,"kernel":3}])"),
              HasSubstr("needs images [channels,height,width], but \"0\" returns [784]"));
  EXPECT_THAT(
      complaint(
          R"([{"name":"a","type":"conv2d","filters":2,"kernel":3},{"type":"add","inputs":["a","input"]}])"),
      HasSubstr("cannot join [2,26,26] from \"a\" and [1,28,28] from \"input\": all inputs must have the "
                "same shape"));
  EXPECT_THAT(
      complaint(R"([{"name":"a","type":"conv2d","filters":2,"kernel":3},)"
                R"({"type":"concatenate","inputs":["a","input"]}])"),
      HasSubstr(
          "cannot join [2,26,26] from \"a\" and [1,28,28] from \"input\": all sizes except the channels"));
  EXPECT_THAT(complaint(R"([{"type":"add","inputs":["input"]}])"),
              HasSubstr("needs at least two inputs, but has 1"));
  EXPECT_THAT(complaint(R"([{"type":"relu","inputs":["input","input"]}])"),
              HasSubstr("takes one input, but 2 are given"));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":3,"kernel":3,"groups":2}])"),
              HasSubstr("2 groups, which must divide the 1 channel of \"input\" and the 3 filters"));
}

TEST(Graph, TheOutputHasToBeLogits) {
  EXPECT_THAT(
      complaint(R"([{"type":"flatten"}])"),
      HasSubstr("layer \"0\" (flatten) is the last layer and returns [784], but 10 classes need [10]"));
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":"classes","kernel":28}])"),
              AllOf(HasSubstr("returns [10,1,1]"), HasSubstr("add a flatten layer after it")));
  EXPECT_THAT(complaint(R"([{"type":"flatten"},{"type":"linear","features":"classes"},{"type":"softmax"}])"),
              HasSubstr("the loss and the scores apply softmax"));
}

TEST(Graph, NormalisationsOfManyChannelsAreRead) {
  std::string numbers = "0.485123456,0.229123456";
  for (int channel = 1; channel < 200; ++channel) numbers += ",0.485123456,0.229123456";
  const auto graph = [](const std::string& normalize) {
    return Json{{"layers", Json::parse(classifier(R"({"type":"relu"})"))},
                {"input", {{"normalize", normalize}}}};
  };
  EXPECT_EQ(read_network(graph(numbers), "net").spec()["input"]["normalize"], numbers);
  EXPECT_THAT(complaint(graph(std::string(2 << 20, '1')).dump()),
              HasSubstr("\"normalize\" must be a text of at most 1,048,576 bytes, and has 2,097,152"));
}

TEST(Graph, TooSmallImagesNameTheSmallestThatFits) {
  const std::string deep =
      classifier(R"({"type":"conv2d","filters":4,"kernel":5},{"type":"max_pool","kernel":2},)"
                 R"({"type":"conv2d","filters":4,"kernel":5},{"type":"max_pool","kernel":2})");
  EXPECT_EQ(complaint(deep, {1, 16, 16, 10}), "");
  EXPECT_THAT(complaint(deep, {1, 15, 40, 10}),
              AllOf(HasSubstr("has a window of 2x2 that does not fit into [4,1,14]"),
                    HasSubstr("smallest square image that fits this network is 16x16")));
}

TEST(Graph, AbsurdSizesAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_THAT(complaint(R"([{"type":"conv2d","filters":1000000,"kernel":10000,"padding":10000}])"),
              HasSubstr("more than the maximum of"));
  EXPECT_THAT(complaint(R"([{"type":"flatten"},{"type":"linear","features":1000000000}])"),
              HasSubstr("more than the maximum of"));
  EXPECT_THAT(complaint(R"([{"type":"flatten"},{"type":"linear","features":99999999999999999999}])"),
              HasSubstr("option features cannot be"));
  EXPECT_THAT(complaint(classifier(R"({"type":"relu"})"), {1 << 24, 1 << 24, 1 << 24, 10}),
              HasSubstr("more than the maximum of"));
  EXPECT_THAT(complaint(classifier(R"({"type":"relu"})"), {-1, 28, 28, 10}),
              HasSubstr("channels cannot be -1"));
  std::string many = "[";
  for (int i = 0; i < 10'001; ++i) many += (i == 0 ? "" : ",") + std::string(R"({"type":"relu"})");
  EXPECT_THAT(complaint(many + "]"), HasSubstr("10,001 layers"));
  // Each step widens the image: the sizes grow, but never past what is checked.
  std::string wide = R"({"type":"conv2d","filters":1,"kernel":1,"padding":10000})";
  for (int i = 0; i < 200; ++i) wide += R"(,{"type":"conv2d","filters":1,"kernel":1,"padding":10000})";
  EXPECT_THAT(complaint(classifier(wide)), HasSubstr("more than the maximum of"));
}

TEST(Graph, HostileTextEndsInAnError) {
  const auto parse = [](const std::string& text) {
    return error_of([&] { read_network(parse_network_json(text), "net"); });
  };
  EXPECT_THAT(parse(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(parse("[1,\n2"), AllOf(HasSubstr("not valid JSON: parse error at line 2")));
  EXPECT_THAT(parse(R"([{"type":"relu","type":"tanh"}])"), HasSubstr("\"type\" stands twice"));
  EXPECT_THAT(parse(""), HasSubstr("not valid JSON"));
  EXPECT_LT(parse(R"([{"type":")" + std::string(900, 'x') + R"("}])").size(), 600u);
  EXPECT_LT(parse(R"([{"type":"relu","inputs":[")" + std::string(100'000, 'x') + R"("]}])").size(), 600u);
  // Very many empty layers: refused for their number, and not looked through again at each one's end.
  std::string empty = "[{}";
  for (int i = 0; i < 200'000; ++i) empty += ",{}";
  EXPECT_THAT(parse(empty + "]"), HasSubstr("200,001 layers"));
}

TEST(Graph, MutatedTextNeverDoesMoreThanThrow) {
  const std::string good = classifier(
      R"({"name":"a.b","type":"conv2d","filters":4,"kernel":[3,5],"padding":1},{"type":"batch_norm"},)"
      R"({"type":"max_pool","kernel":2},{"type":"add","inputs":["2","2"]})");
  Random random(1);
  constexpr int kRounds = 3000;
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = good;
    for (uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
      const size_t at = random.below(text.size());
      if (random.below(2) == 0)
        text[at] = R"([]{}",:0123456789-ab.)"[random.below(21)];
      else
        text.erase(at, 1 + random.below(8));
    }
    refused += !error_of([&] { inspect_network(read_network(parse_network_json(text), "net"), {}); }).empty();
  }
  EXPECT_GT(refused, kRounds / 2);
  EXPECT_LT(refused, kRounds);
}

TEST(Graph, FilesAreReadAndNamed) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("lockstep_graph_test_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path) << classifier(R"({"type":"relu"})");
  EXPECT_EQ(find_network(path.string()).name(), path.string());
  std::ofstream(path) << "[";
  EXPECT_THAT(error_of([&] { find_network(path.string()); }),
              HasSubstr("in network \"" + path.string().substr(0, 20)));
  std::filesystem::remove(path);
  EXPECT_NE(error_of([&] { find_network(path.string()); }), "");
}

TEST(Graph, UnknownNetworksGetTheNearest) {
  EXPECT_THAT(error_of([] { find_network("resnet-18"); }),
              AllOf(HasSubstr("unknown network \"resnet-18\""), HasSubstr("did you mean resnet18?")));
  EXPECT_THAT(
      error_of([] { find_network("transformer"); }),
      HasSubstr(
          "built-in networks are alexnet, alexnet_2012, conv_classifier, digits_cnn, lenet, lstm_classifier, "
          "mlp, mobilenet_v2, resnet9, resnet9_small, resnet18, resnet50, squeezenet, squeezenet1_1, vgg16"));
}

}  // namespace
}  // namespace lockstep::nn
