#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/aws.h"
#include "lockstep/cloud/kubernetes.h"

namespace lockstep::cloud {

std::unique_ptr<Provider> make_provider(const std::string& name) {
  if (name == "aws") return std::make_unique<AwsProvider>(AwsBridge::of_user(), ClusterRecords::of_user());
  if (name == "kubernetes") return std::make_unique<KubernetesProvider>();
  throw Error(ErrorCode::invalid_option, "unknown provider " + quote(name),
              "the providers are aws and kubernetes");
}

}  // namespace lockstep::cloud
