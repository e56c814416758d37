// Convolutions of bfloat16 images on Intel's AMX.
#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/tile_convolution.h"
#include "lockstep/kernels/internal/tile_gradient.h"

namespace lockstep::kernels {
namespace {

TileInput bordered(const ConvolutionShape& shape, const BFloat16* input) {
  return {input,
          {shape.height, shape.width, shape.channels},
          shape.batch,
          shape.padding_height,
          shape.padding_width,
          1,
          1,
          shape.height + 2 * shape.padding_height,
          shape.width + 2 * shape.padding_width};
}

void convolve(Workspace& workspace, const TileInput& input, const TileConvolution& convolution) {
  const TileScope tiles;
  each_group(workspace, input, convolution.beyond(),
             [&](const TilePlanes& planes) { convolution.write(planes); });
}

void forward(const ConvolutionShape& shape, const BFloat16* input, const BFloat16* weight,
             const BFloat16* bias, const ConvolutionOutput<BFloat16>& output) {
  Workspace workspace;
  const TileInput images = bordered(shape, input);
  convolve(workspace, images,
           {workspace,
            images,
            pack_forward(workspace, shape, weight),
            shape.stride_height,
            shape.stride_width,
            bias,
            {output, shape.output_height(), shape.output_width(), shape.filters}});
}

// A convolution of the gradient, whose pixels are a stride apart, with the kernel rotated by 180 degrees.
void input_gradient(const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* weight,
                    BFloat16* input_gradient) {
  Workspace workspace;
  const TileInput images{gradient,
                         {shape.output_height(), shape.output_width(), shape.filters},
                         shape.batch,
                         shape.kernel_height - 1 - shape.padding_height,
                         shape.kernel_width - 1 - shape.padding_width,
                         shape.stride_height,
                         shape.stride_width,
                         shape.height + shape.kernel_height - 1,
                         shape.width + shape.kernel_width - 1};
  convolve(workspace, images,
           {workspace,
            images,
            pack_backward(workspace, shape, weight),
            1,
            1,
            nullptr,
            {{input_gradient, shape.channels}, shape.height, shape.width, shape.channels}});
}

void gradient_of_shard(const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* input,
                       const WeightGradients& target) {
  Workspace workspace;
  const TileInput images = bordered(shape, input);
  TileGradient sums(workspace, shape, images);
  const TileScope tiles;
  each_group(workspace, images, sums.beyond(), [&](const TilePlanes& planes) { sums.add(planes, gradient); });
  sums.write(target.weight, target.bias);
}

void weight_gradient(const ConvolutionShape& shape, const BFloat16* gradient, const BFloat16* input,
                     float* weight_gradient, float* bias_gradient) {
  sum_nodes(shape, 1, gradient, input, {weight_gradient, bias_gradient}, &gradient_of_shard);
}

constexpr ConvolutionKernels<BFloat16> kKernels{&forward, &input_gradient, &weight_gradient};

}  // namespace

const ConvolutionKernels<BFloat16>& amx_convolution_kernels() { return kKernels; }

}  // namespace lockstep::kernels
